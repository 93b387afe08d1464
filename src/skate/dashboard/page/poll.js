// Asks again and again while a view is shown and its tab is visible; nothing is asked for a hidden tab.
import { useEffect, useRef } from "preact/hooks";
import { ask, connection, Refused } from "./session.js";

const SECONDS = 1;
//: Pauses grow to this while the session does not answer.
const SECONDS_MAX = 8;

const visible = () =>
  new Promise((go) => {
    if (!document.hidden) return go();
    const look = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      go();
    };
    document.addEventListener("visibilitychange", look);
  });

const pause = (seconds, stop) =>
  new Promise((go) => {
    const timer = setTimeout(go, seconds * 1000);
    stop.addEventListener("abort", () => { clearTimeout(timer); go(); }, { once: true });
  });

// Asks `path` each `seconds`, and calls `take(answer)`; `params()` is called before each question, so it may move a cursor.
export async function follow(path, { params = () => ({}), take, problem, seconds = SECONDS, stop }) {
  let wait = seconds;
  while (!stop.aborted) {
    await visible();
    if (stop.aborted) return;
    try {
      take(await ask(path, params(), { signal: stop }));
      wait = seconds;
    } catch (error) {
      if (stop.aborted) return;
      if (error instanceof Refused && error.status === 400 && problem) problem(error.message);
      wait = Math.min(SECONDS_MAX, Math.max(wait, 1) * 1.5);
      if (connection.value === "no token" || connection.value === "refused") wait = 1;
    }
    await pause(wait, stop);
  }
}

// The hook for it: starts with the component, restarts when `key` changes, and ends with the component.
export function usePoll(path, { key = path, ...options }) {
  const latest = useRef(options);
  latest.current = options;
  useEffect(() => {
    const end = new AbortController();
    follow(path, {
      params: () => (latest.current.params ? latest.current.params() : {}),
      take: (answer) => latest.current.take(answer),
      problem: (text) => latest.current.problem && latest.current.problem(text),
      seconds: options.seconds,
      stop: end.signal,
    });
    return () => end.abort();
  }, [key]);
}
