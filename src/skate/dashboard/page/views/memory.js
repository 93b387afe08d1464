// Memory: how much there is, and on request the objects by the line that made them, as a treemap and as a table.
import { html, useMemo, useRef, useState, useEffect } from "../dom.js";
import { bytes, clock, number } from "../format.js";
import { useAsked } from "../parts/asked.js";
import { Copies } from "../parts/copies.js";
import { Table } from "../parts/table.js";
import { squares } from "../parts/treemap.js";
import { useWidth } from "../parts/width.js";
import { link } from "../router.js";
import { kindOf } from "../theme.js";
import { model } from "./now/model.js";
import { useNow } from "./work/functions.js";

const HEIGHT = 320;
const BOXES_MAX = 150;

function Strip({ used, spilled, total }) {
  const whole = Math.max(1, total + spilled);
  const text = `${bytes(used)} in use, ${bytes(total - used)} free, ${bytes(spilled)} spilled to disk`;
  return html`<div class="strip" role="img" aria-label=${text}>
      <span class="used" style=${{ width: `${(100 * used) / whole}%` }}></span>
        <span class="free" style=${{ width: `${(100 * (total - used)) / whole}%` }}></span>
      <span class="spilled" style=${{ width: `${(100 * spilled) / whole}%` }}></span></div>
    <ul class="legend"><li class="used">in use ${bytes(used)}</li><li class="free">free ${bytes(total - used)}</li>
      <li class="spilled">spilled to disk ${bytes(spilled)}</li></ul>`;
}

function Strips() {
  useNow();
  const nodes = model.last?.nodes || [];
  return html`<section class="card" aria-labelledby="store"><h2 id="store">Shared memory for values</h2>
    ${nodes.map((node) => html`<div key=${node.id}>${nodes.length > 1 && html`<h3>
      <a href=${link("work", ["node", node.id])}>${node.ip}</a></h3>`}
      <${Strip} used=${node.arena_used} spilled=${node.spilled} total=${node.arena_total} />
      <p class="quiet small">${number(node.objects)} objects known to the node, ${bytes(node.inline)} of small values.</p>
        </div>`)}</section>`;
}

const nameOf = (site) => (site.includes("/") ? site.split("/").pop() : site);

function Treemap({ lines, chosen, choose }) {
  const box = useRef(null);
  const width = useWidth(box);
  const shown = lines.filter((line) => line.bytes > 0).slice(0, BOXES_MAX);
  const places = useMemo(() => squares(shown.map((line) => line.bytes), width, HEIGHT), [lines, width]);
  return html`<div ref=${box}><svg class="treemap" width=${width} height=${HEIGHT} role="img"
    aria-label="Objects by the line that made them; the table below has the same">
    ${shown.map((line, at) => {
      const [x, y, w, h] = places[at];
      const text = `${line.site}: ${bytes(line.bytes)} in ${number(line.objects)} objects${line.spilled
        ? `, ${bytes(line.spilled)} on disk` : ""}`;
      return html`<g key=${line.site} class=${chosen === line.site ? "chosen" : ""} onClick=${() => choose(chosen === line.site
        ? "" : line.site)}>
        <title>${text}</title><rect x=${x} y=${y} width=${Math.max(0, w - 1)} height=${Math.max(0, h - 1)}
          class=${`kind-${kindOf(line.site) + 1}`} />
        ${line.spilled > 0 && html`<rect x=${x} y=${y + h - 1 - (h - 1) * (line.spilled / line.bytes)} width=${Math.max(0, w - 1)}
          height=${(h - 1) * (line.spilled / line.bytes)} class="disk" />`}
        ${w > 70 && h > 34 && html`<text x=${x + 6} y=${y + 17}>${cut(nameOf(line.site), w)}</text><text x=${x + 6} y=${y
          + 32} class="small">${bytes(line.bytes)}</text>`}</g>`;
    })}</svg></div>`;
}

const cut = (text, width) => (text.length * 7 > width - 10 ? `${text.slice(0, Math.max(1, Math.floor((width - 18) / 7)))}…`
  : text);

const LINES = [
  { key: "site", title: "Made at", tip: true, show: (row) => html`<code>${row.site}</code>` },
  { key: "bytes", title: "Size", numeric: true, show: (row) => bytes(row.bytes) }, { key: "spilled", title: "On disk",
    numeric: true, show: (row) => (row.spilled ? bytes(row.spilled) : "") },
  { key: "objects", title: "Objects", numeric: true, show: (row) => number(row.objects) },
  { key: "holders", title: "Held by", tip: true, value: (row) => row.holders.map(([who, count]) => (count > 1 ? `${who} ×${count}`
    : who)).join(", ") + (row.more_holders ? ` and ${row.more_holders} more` : "") },
  { key: "types", title: "References", hidden: true,
    value: (row) => Object.entries(row.types).map(([type, count]) => `${count} ${type.toLowerCase().replaceAll("_",
      " ")}`).join(", ") },
];
const OBJECTS = [
  { key: "object_id", title: "Object", show: (row) => html`<code title=${row.object_id}>${row.object_id.slice(0, 12)}…</code>` },
  { key: "size", title: "Size", numeric: true, show: (row) => bytes(row.size) }, { key: "location", title: "Where" },
  { key: "site", title: "Made at", tip: true, show: (row) => html`<code>${nameOf(row.site)}</code>` },
  { key: "task", title: "Task", value: (row) => (/^f{8}/.test(row.object_id) ? "" : row.object_id.slice(0, 48)),
    show: (row) => (/^f{8}/.test(row.object_id) ? "put"
      : html`<a href=${link("work", ["task", row.object_id.slice(0, 48)])}>its task</a>`) },
  { key: "holders", title: "Held by", tip: true,
    value: (row) => row.references.map((each) => `${each.holder}: ${each.type.toLowerCase().replaceAll("_", " ")}${each.count > 1
      ? ` ×${each.count}` : ""}`).join("; ") },
];

const COPIES = { python: "from skate.util.state import list_objects\n\nprint(list_objects(detail=True, limit=10_000))",
  path: "api/v0/objects?detail=1&limit=10000", cli: "skate memory" };

export function View({ query }) {
  const [answer, problem, again, busy] = useAsked("api/skate/memory");
  const [at, setAt] = useState(0);
  const [chosen, choose] = useState("");
  useEffect(() => { if (answer) setAt(Date.now()); }, [answer]);
  const lines = useMemo(() => (answer?.lines || []).map((line) => ({ ...line, id: line.site })), [answer]);
  const objects = (answer?.objects || []).filter((each) => !chosen || each.site === chosen).map((each) => ({ ...each,
    id: each.object_id }));
  return html`<h1>Memory</h1>
    <div class="cards"><${Strips} />
    <section class="card wide" aria-labelledby="lines"><header><h2 id="lines">Objects by the line that made them</h2>
      <span class="tools"><span class="quiet">${at ? `seen at ${clock(at)}` : ""}</span><${Copies} ...${COPIES} />
        <button onClick=${again} disabled=${busy}>${busy ? "Looking …" : "Look now"}</button></span></header>
      <p class="quiet small">A look costs each process some milliseconds, so there is one only when you ask.
        The darker, dashed part is on disk. Lines of <code>put</code> are known with
        <code>SKATE_RECORD_REF_CREATION_SITES=1</code> in the environment of the program.</p>
      ${problem && html`<p class="bad">${problem}</p>`}
      ${answer && !answer.whole
        && html`<p class="warn">There are more references than one look reads; the largest objects may be missing.</p>`}
      <${Treemap} lines=${lines} chosen=${chosen} choose=${choose} />
      <${Table} name="lines" rows=${lines} columns=${LINES} filter=${query.filter} order=${{ key: "bytes", down: true }}
        nothing=${busy ? "Looking …" : "No object is referenced."} /></section>
    <section class="card wide" aria-labelledby="largest"><header><h2 id="largest">The largest objects ${chosen
      && html`of <code>${chosen}</code>`}</h2>
      ${chosen && html`<button onClick=${() => choose("")}>of all lines</button>`}</header>
      <${Table} simple name="objects" rows=${objects} columns=${OBJECTS} order=${{ key: "size", down: true }}
        nothing="No object is referenced." /></section></div>`;
}
