// A flame graph as SVG, with the same numbers as a table. A click on a box shows only what is above it.
import { html, useEffect, useMemo, useRef, useState } from "../../dom.js";
import { bytes, seconds } from "../../format.js";
import { Table } from "../../parts/table.js";
import { useWidth } from "../../parts/width.js";
import { kindOf } from "../../theme.js";
import { tableOf, treeOf } from "./folding.js";

const ROW = 19;
const LETTER = 6.7;
//: Narrower boxes are left out, in pixels, and there are at most so many.
const NARROW = 0.7;
const BOXES_MAX = 4000;

function boxesOf(top, width) {
  const boxes = [];
  const add = (node, x, depth, scale) => {
    const wide = node.weight * scale;
    if (wide < NARROW || boxes.length >= BOXES_MAX) return;
    boxes.push({ node, x, depth, wide });
    let along = x;
    for (const next of [...node.below.values()].sort((a, b) => b.weight - a.weight)) {
      add(next, along, depth + 1, scale);
      along += next.weight * scale;
    }
  };
  add(top, 0, 0, top.weight ? width / top.weight : 0);
  return boxes;
}

const cut = (text, wide) => {
  const letters = Math.floor((wide - 6) / LETTER);
  return letters < 3 ? "" : text.length <= letters ? text : `${text.slice(0, letters - 1)}…`;
};

function Boxes({ root, format }) {
  const [top, setTop] = useState(root);
  const box = useRef(null);
  const width = useWidth(box);
  useEffect(() => setTop(root), [root]);
  const boxes = useMemo(() => boxesOf(top, width), [top, width]);
  const deepest = boxes.reduce((most, each) => Math.max(most, each.depth), 0);
  const share = (node) => `${((100 * node.weight) / (root.weight || 1)).toFixed(1)} %`;
  return html`<div ref=${box}>${top !== root && html`<p><button onClick=${() => setTop(root)}>Show all again</button></p>`}
    <svg class="flame" width=${width} height=${(deepest + 1) * ROW} role="img"
      aria-label="Flame graph; the table has the same numbers">
      ${boxes.map(({ node, x, depth, wide }, at) => html`<g key=${at} onClick=${() => setTop(node)}>
        <title>${node.name}: ${format(node.weight)}, ${share(node)}</title>
        <rect x=${x} y=${depth * ROW} width=${Math.max(0.5, wide - 0.6)} height=${ROW - 1}
          class=${`kind-${kindOf(node.name.split(" (")[0]) + 1}`} />
        ${wide > 26 && html`<text x=${x + 4} y=${depth * ROW + 13}>${cut(node.name, wide)}</text>`}</g>`)}</svg></div>`;
}

export function Flame({ profile }) {
  const [asTable, setAsTable] = useState(false);
  const [apart, setApart] = useState(true);
  const format = (weight) => (profile.mode === "memory" ? bytes(weight) : seconds(weight / 1e6));
  const root = useMemo(() => treeOf(profile, apart), [profile, apart]);
  const rows = useMemo(() => tableOf(profile), [profile]);
  const columns = [
    { key: "name", title: "Function", tip: true, show: (row) => html`<code>${row.name}</code>` },
    { key: "own", title: "Here", numeric: true, show: (row) => format(row.own) }, { key: "whole", title: "With calls",
      numeric: true, show: (row) => format(row.whole) },
  ];
  if (!root.weight) return html`<p class="quiet">Nothing was spent meanwhile.</p>`;
  return html`<div class="tools"><button aria-pressed=${asTable} onClick=${() => setAsTable(!asTable)}>Table<span
    class="unseen"> of the profile</span></button>
      <label><input type="checkbox" checked=${apart} onChange=${(event) => setApart(event.target.checked)}
        /> processes apart</label>
      <span class="count">${format(root.weight)} in ${profile.processes.length} processes</span></div>
    ${asTable ? html`<${Table} name="profile" rows=${rows} columns=${columns} order=${{ key: "own", down: true }} />`
      : html`<${Boxes} root=${root} format=${format} />`}`;
}
