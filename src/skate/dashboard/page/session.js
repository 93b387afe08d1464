// Requests to the server of the session: the token, JSON answers, and whether the session still answers.
import { signal } from "@preact/signals";

const KEY = "skate.token";
const CHANNEL = "skate.token";
//: "asking" before the first answer, "live", "no token", "refused", or "lost".
export const connection = signal("asking");
//: When the session has answered last, in milliseconds since 1970.
export const answeredAt = signal(0);
//: The begin and the end of a kept session that is shown from a file, in seconds since 1970; null of a live one.
export const kept = signal(null);
//: The scope of the token: "read", "control" or "submit".
export const scope = signal("");
const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel(CHANNEL) : null;

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

export const token = () => sessionStorage.getItem(KEY) || "";

export function keepToken(value) {
  sessionStorage.setItem(KEY, value.trim());
  connection.value = "asking";
}

// Takes the token out of the address, so that it is in no history and no copied link.
export function takeToken() {
  const found = /^#token=([^&]+)/.exec(location.hash);
  if (found) {
    keepToken(decodeURIComponent(found[1]));
    history.replaceState(null, "", location.pathname + location.search + "#/now");
  }
  channel?.addEventListener("message", ({ data }) => {
    if (data === "who has it?" && token()) channel.postMessage({ token: token() });
    else if (data.token && !token()) keepToken(data.token);
  });
  // A tab that was opened by a link of this page: another one of the same server lends it the token.
  if (!token()) channel?.postMessage("who has it?");
}

export function address(path, params = {}) {
  const given = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(given).toString();
  return query ? `${path}?${query}` : path;
}

async function answerOf(path, params, options) {
  const headers = { Authorization: `Bearer ${token()}`, ...options.headers };
  try {
    return await fetch(address(path, params), { ...options, headers, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (error.name !== "AbortError") connection.value = "lost";
    throw error;
  }
}

// Returns the answer to a GET as JSON; throws Refused, or the error of the network. `path` is relative: "api/skate/now".
export async function ask(path, params = {}, options = {}) {
  if (!token()) {
    connection.value = "no token";
    throw new Refused(401, "there is no token");
  }
  const answer = await answerOf(path, params, options);
  if (answer.status === 401 || (answer.status === 403 && options.method !== "POST")) connection.value = "refused";
  else if (answer.status === 502 || answer.status === 504) connection.value = "lost"; // said by a proxy in between
  if (!answer.ok) throw new Refused(answer.status, await answer.text());
  connection.value = "live";
  answeredAt.value = Date.now();
  const found = await answer.json();
  if (found.kept) kept.value = found.kept;
  return found;
}

// Sends a POST with JSON, which needs a token for "control"; otherwise as `ask`.
export const post = (path, body = {}, options = {}) =>
  ask(path, {}, { ...options, method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
