// An answer that is asked for once, and again on request.
import { useCallback, useEffect, useState } from "../dom.js";
import { ask, Refused } from "../session.js";

// Returns [answer, problem, again, busy]; `key` restarts it.
export function useAsked(path, params = {}, key = path) {
  const [state, setState] = useState({ answer: null, problem: "", busy: true });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const end = new AbortController();
    setState((old) => ({ ...old, busy: true }));
    ask(path, params, { signal: end.signal }).then(
      (answer) => setState({ answer, problem: "", busy: false }),
      (error) => {
        if (end.signal.aborted) return;
        const problem = error instanceof Refused ? error.message : "the session does not answer";
        setState((old) => ({ answer: old.answer, problem, busy: false }));
      },
    );
    return () => end.abort();
  }, [key, turn]);
  return [state.answer, state.problem, useCallback(() => setTurn((old) => old + 1), []), state.busy];
}
