// The frame of the page: the left column, the state of the connection, the view, and the keys.
import { html, useEffect, useRef, useState } from "./dom.js";
import { clock } from "./format.js";
import { go, link, place } from "./router.js";
import { answeredAt, connection, keepToken } from "./session.js";
import { Kept, SaveSession } from "./parts/kept.js";
import { Keys } from "./parts/keys.js";
import { setTheme, theme, THEMES } from "./theme.js";
import { VIEWS, viewOf } from "./views.js";

function Column({ current }) {
  return html`<nav class="column" aria-label="Views">
    <a class="brand" href=${link("now")}><img src="page/icon.svg" alt="" width="22" height="22" /><span>Skate</span></a>
    <ul>
      ${VIEWS.map((view) => html`<li key=${view.name}>
        <a href=${link(view.name)} aria-current=${view.name === current ? "page" : undefined}>${view.title}</a>
      </li>`)}
    </ul>
    <${SaveSession} />
    <label class="theme">Colours
      <select value=${theme.value} onChange=${(event) => setTheme(event.target.value)}>
        ${THEMES.map((name) => html`<option key=${name} value=${name} selected=${theme.value === name}>${name}</option>`)}
      </select>
    </label>
    <p class="hint"><kbd>?</kbd> keys</p>
  </nav>`;
}

function AskForToken() {
  const field = useRef(null);
  const refused = connection.value === "refused";
  const keep = (event) => {
    event.preventDefault();
    keepToken(field.current.value.replace(/^.*#token=/, ""));
    location.reload();
  };
  return html`<form class="card token" onSubmit=${keep}>
    <h2>${refused ? "The server does not accept this token" : "This page needs the token of the session"}</h2>
    <p>It is the end of the link that was printed when the dashboard started, after <code>#token=</code>. Paste the link or the
      token. <code>skate get-auth-token</code> prints it, too. It stays in this tab.</p>
    <label>Token <input ref=${field} type="password" autocomplete="off" required /></label> <button>Open</button>
  </form>`;
}

// The only text that screen readers are told about by itself, besides the sentence of the view Now.
function Connection() {
  const lost = connection.value === "lost";
  return html`<div class=${lost ? "lost" : "gone"} role="status">${lost
    ? html`<strong>The session does not answer any more.</strong> ${" "}It has ended, or its dashboard has. What you see is from
      ${" "}${clock(answeredAt.value) || "before"}. The page goes on asking.`
    : ""}</div>`;
}

function Loaded({ name, parts, query }) {
  const [found, setFound] = useState({});
  const view = viewOf(name);
  useEffect(() => {
    document.title = view ? `${view.title} · Skate` : "Skate";
    let current = true;
    view?.load().then((module) => current && setFound({ name, View: module.View }), (error) => current
      && setFound({ name, error }));
    return () => { current = false; };
  }, [name]);
  if (!view) return html`<h1>There is no such view</h1><p>The names on the left are all there are.</p>`;
  if (found.error && found.name === name) return html`<p>The file of this view could not be loaded: ${found.error.message}</p>`;
  if (found.name !== name || !found.View) return html`<h1>${view.title}</h1>`;
  return html`<${found.View} key=${name} parts=${parts} query=${query} />`;
}

// Moves between views with g and a number, to the search field with /.
function useKeys(openKeys) {
  useEffect(() => {
    let afterG = false;
    const press = (event) => {
      const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
      if (event.key === "Escape" && typing) event.target.blur();
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      const search = document.querySelector("main [data-search]");
      if (event.key === "/" && search) { event.preventDefault(); search.focus(); search.select(); }
      else if (event.key === "?") openKeys();
      else if (afterG && /^[0-9]$/.test(event.key)) {
        const view = VIEWS[(Number(event.key) + 9) % 10];
        if (view) go(view.name);
      }
      afterG = event.key === "g";
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

export function Shell() {
  const { view, parts, query } = place.value;
  const keys = useRef(null);
  const main = useRef(null);
  useKeys(() => keys.current?.showModal());
  const skip = (event) => { event.preventDefault(); main.current.focus(); };
  const closed = connection.value === "no token" || connection.value === "refused";
  return html`<a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <div class="frame">
      <${Column} current=${view} />
      <main id="main" tabindex="-1" ref=${main}>
        <${Connection} />
        <${Kept} />
        ${closed ? html`<h1>Skate</h1><${AskForToken} />` : html`<${Loaded} name=${view} parts=${parts} query=${query} />`}
      </main>
    </div>
    <${Keys} dialog=${keys} />`;
}
