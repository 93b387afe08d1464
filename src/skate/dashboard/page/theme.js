// Light, dark, or as the system has it. Canvases ask here for their colours.
import { signal } from "@preact/signals";

const KEY = "skate.theme";
export const THEMES = ["auto", "light", "dark"];
export const theme = signal(THEMES.includes(localStorage.getItem(KEY)) ? localStorage.getItem(KEY) : "auto");
const dark = matchMedia("(prefers-color-scheme: dark)");
//: Counts changes of the colours; canvases that read it are drawn again.
export const colours = signal(0);
dark.addEventListener("change", () => { colours.value += 1; });

export function applyTheme() {
  if (theme.value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
  colours.value += 1;
}

export function setTheme(name) {
  theme.value = name;
  localStorage.setItem(KEY, name);
  applyTheme();
}

// Returns a colour of style/base.css, such as "--text".
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

//: The number of colours for kinds of things; differing ones have differing lightness as well.
export const KINDS = 8;
export const kindColour = (index) => colour(`--kind-${(index % KINDS) + 1}`);

// Returns the same number for the same name, so that a function keeps its colour.
export function kindOf(name) {
  let hash = 2166136261;
  for (let at = 0; at < name.length; at += 1) hash = Math.imul(hash ^ name.charCodeAt(at), 16777619);
  return ((hash ^ (hash >>> 15)) >>> 0) % KINDS;
}

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
