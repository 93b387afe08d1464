// The names that views build elements with: Preact, its hooks, signals, and `html` for templates. Text stays text.
import { h, render } from "preact";
import htm from "htm";

export const html = htm.bind(h);
export { h, render };
export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
export { batch, computed, effect, signal } from "@preact/signals";
