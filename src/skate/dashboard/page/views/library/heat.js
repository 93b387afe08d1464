// Latencies over time as a heat map: a column for each reading, a row for each bucket; darker is more requests.
import { html, useEffect, useRef, useState } from "../../dom.js";
import { number, seconds } from "../../format.js";
import { colour, colours } from "../../theme.js";

const ROW = 13;
const LEFT = 62;
const COLUMNS_MAX = 180;
const COLUMNS_MIN = 30;

// Returns only the buckets that have requests, and one on either side.
function used(heat) {
  const sums = heat.counts.reduce((sum, column) => sum.map((value, at) => value + column[at]),
    new Array(heat.bounds.length + 1).fill(0));
  const first = sums.findIndex((value) => value > 0);
  const last = sums.findLastIndex((value) => value > 0);
  return [Math.max(0, first - 1), Math.min(sums.length - 1, last + 1)];
}

const nameOf = (heat, at) => (at < heat.bounds.length ? `≤ ${seconds(heat.bounds[at] / 1000)}` : "more");

function draw(canvas, heat, [first, last]) {
  const width = canvas.parentElement.clientWidth || 400;
  const rows = last - first + 1;
  const scale = globalThis.devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = (rows * ROW + 4) * scale;
  Object.assign(canvas.style, { width: `${width}px`, height: `${rows * ROW + 4}px` });
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "right";
  const columns = heat.counts.slice(-COLUMNS_MAX);
  const most = Math.max(1, ...columns.flat());
  const places = Math.max(COLUMNS_MIN, columns.length);
  const step = (width - LEFT) / places;
  for (let row = 0; row < rows; row += 1) {
    const top = (rows - 1 - row) * ROW;
    context.globalAlpha = 1;
    context.fillStyle = colour("--quiet");
    context.fillText(nameOf(heat, first + row), LEFT - 6, top + ROW - 2);
    context.fillStyle = colour("--bar");
    columns.forEach((column, at) => {
      const count = column[first + row];
      if (!count) return;
      context.globalAlpha = 0.15 + 0.85 * Math.sqrt(count / most);
      context.fillRect(LEFT + (places - columns.length + at) * step, top + 1, Math.max(1, step - 0.5), ROW - 1);
    });
  }
}

function Numbers({ heat, range }) {
  const columns = heat.counts.slice(-60).map((column, at,
    all) => ({ column, at: heat.at[heat.at.length - all.length + at] })).reverse();
  const buckets = Array.from({ length: range[1] - range[0] + 1 }, (_, at) => range[0] + at);
  return html`<div class="scroll tall" role="region" aria-label="Latencies as a table" tabindex="0"><table>
    <thead><tr><th scope="col">time</th>${buckets.map((at) => html`<th key=${at} scope="col" class="n">${nameOf(heat,
      at)}</th>`)}</tr></thead>
    <tbody>${columns.map((each) => html`<tr key=${each.at}>
      <td>${new Date(each.at * 1000).toLocaleTimeString("en-GB")}</td>${buckets.map((at) => html`<td key=${at}
        class="n">${number(each.column[at])}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

export function Heat({ heat }) {
  const canvas = useRef(null);
  const [asTable, setAsTable] = useState(false);
  const any = heat.counts.some((column) => column.some((count) => count > 0));
  useEffect(() => { if (any && canvas.current) draw(canvas.current, heat, used(heat)); }, [heat, asTable, colours.value]);
  const total = heat.counts.reduce((sum, column) => sum + column.reduce((a, b) => a + b, 0), 0);
  return html`<figure class="figure"><figcaption><span>Latencies of requests</span>
      <button aria-pressed=${asTable} onClick=${() => setAsTable(!asTable)}>Table<span class="unseen"> of latencies</span>
        </button></figcaption>
    ${!any ? html`<p class="quiet">No request has ended since this page looks.</p>`
      : asTable ? html`<${Numbers} heat=${heat} range=${used(heat)} />`
        : html`<div><canvas ref=${canvas} role="img" aria-label=${`Latencies of ${total} requests over time`}></canvas>
          </div>`}</figure>`;
}
