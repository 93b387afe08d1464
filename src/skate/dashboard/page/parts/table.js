// A table of any length: only the rows in sight are in the document. It filters, sorts, hides columns, copies and saves.
//
// columns: [{key, title, numeric, value(row), show(row), hidden}]; `value` is what is sorted, searched and saved (by default
// row[key]), `show` what is shown (a text, or elements). `open(row)` is the link of a row, followed by Enter.
import { html, useEffect, useMemo, useRef, useState } from "../dom.js";
import { number } from "../format.js";
import { Copies } from "./copies.js";
import { csv, save } from "./saving.js";

const ROW = 31;
const BEYOND = 12;
const PAGE = 15;

const valueOf = (column, row) => (column.value ? column.value(row) : row[column.key]);
const textOf = (value) => (value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value)
  : String(value));

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined || a === "") return 1;
  if (b === null || b === undefined || b === "") return -1;
  if (typeof a === "number" && typeof b === "number") return a - b;
  const [left, right] = [textOf(a), textOf(b)];
  return left < right ? -1 : left > right ? 1 : 0;
}

// Returns the rows that have each word in one of their columns. `name:word` looks in the column of that title only.
export function filtered(rows, columns, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return rows;
  const tests = words.map((word) => {
    const at = word.indexOf(":");
    const column = at > 0 && columns.find((each) => each.title.toLowerCase() === word.slice(0, at) || each.key === word.slice(0,
      at));
    return column ? { columns: [column], word: word.slice(at + 1) } : { columns, word };
  });
  const has = (row, test) => test.columns.some((each) => textOf(valueOf(each, row)).toLowerCase().includes(test.word));
  return rows.filter((row) => tests.every((test) => has(row, test)));
}

export function sorted(rows, columns, order) {
  const column = columns.find((each) => each.key === order.key);
  if (!column) return rows;
  const keyed = rows.map((row, at) => [valueOf(column, row), at, row]);
  const sign = order.down ? -1 : 1;
  const empty = (value) => value === null || value === undefined || value === "";
  keyed.sort((a, b) => (empty(a[0]) !== empty(b[0]) ? compare(a[0], b[0]) : sign * compare(a[0], b[0])) || a[1] - b[1]);
  return keyed.map((each) => each[2]);
}

function Head({ columns, order, setOrder }) {
  const turn = (key) => setOrder({ key, down: order.key === key && !order.down });
  return html`<thead><tr>${columns.map((each) => html`<th key=${each.key} scope="col" class=${each.numeric ? "n" : ""}
    aria-sort=${order.key === each.key ? (order.down ? "descending" : "ascending") : undefined}>
    <button onClick=${() => turn(each.key)}>${each.title}</button></th>`)}</tr></thead>`;
}

function Columns({ columns, hidden, setHidden }) {
  const turn = (key) => setHidden(hidden.includes(key) ? hidden.filter((each) => each !== key) : [...hidden, key]);
  return html`<details><summary>Columns</summary><div class="menu">${columns.map((each) => html`<label key=${each.key}>
    <input type="checkbox" checked=${!hidden.includes(each.key)} onChange=${() => turn(each.key)} />${each.title}</label>`)}</div>
      </details>`;
}

const Row = ({ row, at, columns, first }) => html`<tr tabindex=${first ? 0 : -1} aria-rowindex=${at + 2} data-at=${at}>
  ${columns.map((each) => html`<td key=${each.key} class=${each.numeric ? "n" : ""} title=${each.tip ? textOf(valueOf(each, row))
    : undefined}>
    ${each.show ? each.show(row) : textOf(valueOf(each, row))}</td>`)}</tr>`;

// Moves the focus from row to row; rows that are not in the document are scrolled to first.
function keysOf(box, count, open, rows) {
  return (event) => {
    const here = event.target.closest("tr[data-at]");
    if (!here || event.target !== here) return;
    const at = Number(here.dataset.at);
    const steps = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + PAGE, PageUp: at - PAGE, Home: 0, End: count - 1 };
    if (event.key === "Enter" && open) location.hash = open(rows[at]);
    if (!(event.key in steps)) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(count - 1, steps[event.key]));
    const top = next * ROW;
    const view = box.current;
    if (top < view.scrollTop) view.scrollTop = top;
    if (top + 2 * ROW > view.scrollTop + view.clientHeight) view.scrollTop = top + 3 * ROW - view.clientHeight;
    const focus = (tries) => {
      const row = view.querySelector(`tr[data-at="${next}"]`);
      if (row) row.focus({ preventScroll: true });
      else if (tries) requestAnimationFrame(() => focus(tries - 1));
    };
    focus(10);
  };
}

function Body({ rows, columns, range }) {
  const [from, to] = range;
  const space = (height) => html`<tr class="space" aria-hidden="true"><td colspan=${columns.length}
    style=${{ height: `${height}px` }}></td></tr>`;
  return html`<tbody>
    ${from > 0 && space(from * ROW)}
    ${rows.slice(from, to).map((row, at) => html`<${Row} key=${row.id ?? from + at} row=${row} at=${from + at} columns=${columns}
      first=${at === 0} />`)}
    ${to < rows.length && space((rows.length - to) * ROW)}
  </tbody>`;
}

function useRange(box, count) {
  const [range, setRange] = useState([0, 60]);
  const look = () => {
    const view = box.current;
    if (!view) return;
    const from = Math.max(0, Math.floor(view.scrollTop / ROW) - BEYOND);
    const to = Math.min(count, from + Math.ceil((view.clientHeight || 600) / ROW) + 2 * BEYOND + 2);
    setRange((old) => (old[0] === from && old[1] === to ? old : [from, to]));
  };
  useEffect(look, [count]);
  useEffect(() => {
    const watcher = new ResizeObserver(look);
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, [count]);
  return [range, look];
}

// Props: rows, columns, name (of the file and for screen readers), open, order ({key, down}), filter (the first one),
// changed(filter)
// to keep it in the address, copies (see copies.js), nothing (a sentence for no rows), simple (no tools, for short tables).
export function Table({ rows, columns, name, open, order: first, filter = "", changed, copies, nothing, simple }) {
  const [text, setText] = useState(filter);
  const [order, setOrder] = useState(first || {});
  const [hidden, setHidden] = useState(columns.filter((each) => each.hidden).map((each) => each.key));
  const box = useRef(null);
  const shown = columns.filter((each) => !hidden.includes(each.key));
  const found = useMemo(() => sorted(filtered(rows, columns, text), columns, order), [rows, columns, text, order]);
  const [range, look] = useRange(box, found.length);
  // A filter that comes back from the address may be older than what has been typed since.
  const typed = useRef(false);
  useEffect(() => { if (!typed.current) setText(filter); }, [filter]);
  const search = (event) => {
    typed.current = true;
    setText(event.target.value);
    changed?.(event.target.value);
  };
  const all = () => save(`${name}.csv`, csv(shown.map((each) => each.title),
    found.map((row) => shown.map((each) => valueOf(each, row)))));
  return html`<div class="table">
    ${!simple && html`<div class="tools">
      <input type="search" data-search placeholder="Filter: words, or column:word" aria-label=${`Filter ${name}`} value=${text}
        onBlur=${() => { typed.current = false; }}
        onInput=${search} />
      <span class="count">${found.length === rows.length ? number(rows.length)
        : `${number(found.length)} of ${number(rows.length)}`}</span>
      <${Columns} columns=${columns} hidden=${hidden} setHidden=${setHidden} />
      ${copies && html`<${Copies} ...${copies} />`}
      <button onClick=${all}>CSV</button>
    </div>`}
    <div class="scroll tall" ref=${box} onScroll=${look} role="region" aria-label=${`Table of ${name}`} tabindex="0">
      <table class="rows" aria-rowcount=${found.length + 1} onKeyDown=${keysOf(box, found.length, open, found)}>
        <${Head} columns=${shown} order=${order} setOrder=${setOrder} />
        <${Body} rows=${found} columns=${shown} range=${range} />
      </table>
      ${found.length === 0 && html`<p class="nothing">${rows.length ? "No row passes the filter." : nothing
        || "There are no rows."}</p>`}
    </div>
  </div>`;
}
