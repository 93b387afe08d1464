// Starts the page.
import { html, render } from "./dom.js";
import { readPlace } from "./router.js";
import { takeToken } from "./session.js";
import { Shell } from "./shell.js";
import { applyTheme } from "./theme.js";

takeToken();
readPlace();
applyTheme();
render(html`<${Shell} />`, document.getElementById("app"));
