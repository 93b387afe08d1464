// The place in the page, kept in the part of the address behind #: `#/work/tasks?state=FAILED`. Links are relative.
import { signal } from "@preact/signals";

const parse = () => {
  const text = location.hash.replace(/^#\/?/, "");
  const at = text.indexOf("?") < 0 ? text.length : text.indexOf("?");
  const [path, query] = [text.slice(0, at), text.slice(at + 1)];
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  return { view: parts[0] || "now", parts: parts.slice(1), query: Object.fromEntries(new URLSearchParams(query)) };
};

export const place = signal(parse());
export const readPlace = () => { place.value = parse(); };
addEventListener("hashchange", readPlace);

// Returns the link to a place: `link("work", ["task", id], {log: 1})`.
export function link(view, parts = [], query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  const text = new URLSearchParams(given).toString();
  return `#/${[view, ...parts].map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function go(view, parts, query) {
  location.hash = link(view, parts, query);
}

// Changes the query of this place without a new entry in the history: for filters and sort orders.
export function setQuery(changes) {
  const { view, parts, query } = place.value;
  history.replaceState(null, "", link(view, parts, { ...query, ...changes }));
  place.value = parse();
}
