// A chart of series over time or any other number, drawn by uPlot; the button "Table" shows the same numbers as a table.
//
// Props: title, x (numbers; seconds since 1970 unless `plain`), series: [{label, values, format}], height, xTitle, sync (charts
// with the
// same name share the cursor). Series differ by colour and by dashes.
import uPlot from "uplot";
import { html, useEffect, useRef, useState } from "../dom.js";
import { amount } from "../format.js";
import { colour, colours, kindColour } from "../theme.js";

const DASHES = [[], [6, 3], [2, 3], [10, 3, 2, 3], [1, 2], [12, 4]];
const ROWS_MAX = 500;

function optionsOf({ title, series, plain, height, sync }, width) {
  const axis = () => ({ stroke: colour("--quiet"), font: "11px system-ui, sans-serif", grid: { stroke: colour("--line"),
    width: 1 }, ticks: { stroke: colour("--line") } });
  const format = series[0]?.format || amount;
  return {
    title, width, height, legend: { live: false, markers: { width: 3, dash: (plot, at) => (at > 1 ? "dashed" : "solid") } },
      cursor: { sync: sync ? { key: sync } : undefined, drag: { x: true, y: false } },
    padding: [8, 8, 0, 0],
    scales: { x: { time: !plain }, y: { range: (plot, low, high) => [Math.min(0, low ?? 0), (high || 1) * 1.05] } },
    axes: [{ ...axis(), values: plain ? undefined
      : (plot, ticks) => ticks.map((tick) => new Date(tick * 1000).toLocaleTimeString("en-GB")) },
        { ...axis(), size: 66, values: (plot, ticks) => ticks.map((tick) => format(tick)) }],
    series: [{}, ...series.map((each, at) => ({
      label: each.label, stroke: kindColour(at), width: 1.6, dash: DASHES[at % DASHES.length],
        points: { show: each.values.length < 3 },
      value: (plot, value) => (value === null || value === undefined ? "" : (each.format || amount)(value)),
    }))],
  };
}

function Plot(props) {
  const box = useRef(null);
  const plot = useRef(null);
  const data = () => [props.x, ...props.series.map((each) => each.values)];
  const names = props.series.map((each) => each.label).join("\n");
  useEffect(() => {
    const node = box.current;
    const made = new uPlot(optionsOf(props, node.clientWidth || 400), data(), node);
    plot.current = made;
    const watcher = new ResizeObserver(() => node.clientWidth && made.setSize({ width: node.clientWidth, height: props.height }));
    watcher.observe(node);
    return () => { watcher.disconnect(); made.destroy(); plot.current = null; };
  }, [names, colours.value, props.height, props.plain]);
  useEffect(() => { plot.current?.setData(data()); }, [props.x, props.series]);
  return html`<div class="chart" ref=${box} role="img" aria-label=${`${props.title}: ${summary(props)}`}></div>`;
}

function summary({ series }) {
  return series.map(({ label, values, format }) => {
    const last = values.findLast((value) => value !== null && value !== undefined);
    return last === undefined ? `${label} has no value` : `${label} ${(format || amount)(last)}`;
  }).join(", ");
}

function Numbers({ title, x, series, plain, xTitle }) {
  const from = Math.max(0, x.length - ROWS_MAX);
  const at = (value) => (plain ? amount(value) : new Date(value * 1000).toLocaleTimeString("en-GB"));
  return html`<div class="scroll tall" role="region" aria-label=${`${title} as a table`} tabindex="0"><table>
    <thead><tr><th scope="col">${xTitle || (plain ? "x" : "time")}</th>${series.map((each) => html`<th key=${each.label}
      scope="col" class="n">${each.label}</th>`)}</tr></thead>
    <tbody>${x.slice(from).map((value, row) => html`<tr key=${from + row}>
      <td>${at(value)}</td>${series.map((each) => html`<td key=${each.label} class="n">
      ${each.values[from + row] === null ? ""
        : (each.format || amount)(each.values[from + row])}</td>`)}</tr>`).reverse()}</tbody>
  </table></div>`;
}

export function Chart({ height = 160, ...props }) {
  const [asTable, setAsTable] = useState(false);
  return html`<figure class="figure">
    <figcaption><span>${props.title}</span>
      <button aria-pressed=${asTable} onClick=${() => setAsTable(!asTable)}>Table<span class="unseen"> of ${props.title}</span>
        </button></figcaption>
    ${asTable ? html`<${Numbers} ...${props} />` : html`<${Plot} ...${props} height=${height} />`}
  </figure>`;
}
