// The live stream: a row for each worker, a box for each task, drawn on a canvas about 30 times a second.
import { html, useEffect, useRef, useState } from "../dom.js";
import { seconds } from "../format.js";
import { calm, colour, colours, kindColour, kindOf, KINDS } from "../theme.js";

const ROW = 18;
const LABEL = 92;
const AXIS = 20;
const ROWS_MAX = 40;
const FRAME_MS = 30;
const CALM_MS = 1000;

// Draws the spans of a window of time; returns how many boxes were drawn. Boxes that fall onto the same pixels are drawn once.
export function draw(context, { spans, running, rows, from, to, width, height, palette }) {
  const scale = (width - LABEL) / (to - from);
  const places = new Int16Array(spans.names.length).fill(-1);
  rows.forEach((row, at) => { places[row] = at; });
  context.fillStyle = palette.ground;
  context.fillRect(0, 0, width, height);
  let boxes = 0;
  for (let kind = 0; kind < KINDS; kind += 1) {
    context.fillStyle = palette.kinds[kind];
    boxes += drawRing(context, spans.rings[kind], places, from, to, scale);
  }
  for (const each of running) {
    const place = places[each.row];
    if (place < 0) continue;
    const left = LABEL + Math.max(0, (each.begin - from) * scale);
    context.fillStyle = palette.kinds[kindOf(each.name)];
    context.globalAlpha = 0.55;
    context.fillRect(left, AXIS + place * ROW + 2, Math.max(1, width - left), ROW - 4);
    context.globalAlpha = 1;
  }
  drawFailed(context, { spans, places, from, scale, palette });
  drawFrame(context, { spans, rows, from, to, width, height, palette, scale });
  return boxes;
}

function drawRing(context, ring, places, from, to, scale) {
  const last = new Float32Array(places.length).fill(-1);
  let boxes = 0;
  const start = ring.count < ring.size ? 0 : ring.next;
  for (let step = 0; step < ring.count; step += 1) {
    const at = (start + step) % ring.size;
    const row = ring.rows[at];
    if (places[row] < 0 || ring.ends[at] < from || ring.begins[at] > to) continue;
    const left = Math.max(0, (ring.begins[at] - from) * scale);
    const right = (ring.ends[at] - from) * scale;
    if (right <= last[row] && right > last[row] - 2) continue; // these pixels have the colour already
    last[row] = Math.ceil(right);
    context.fillRect(LABEL + left, AXIS + places[row] * ROW + 2, Math.max(1, right - left), ROW - 4);
    boxes += 1;
  }
  return boxes;
}

// Failed tasks have a mark that differs by its shape, too: a box in the colour of errors, with a cross.
function drawFailed(context, { spans, places, from, scale, palette }) {
  context.strokeStyle = palette.bad;
  context.lineWidth = 1.5;
  context.beginPath();
  for (const ring of spans.rings) {
    for (let at = 0; at < ring.count; at += 1) {
      if (!ring.failed[at] || places[ring.rows[at]] < 0 || ring.ends[at] < from) continue;
      const x = LABEL + Math.max(3, (ring.ends[at] - from) * scale - 3);
      const y = AXIS + places[ring.rows[at]] * ROW + ROW / 2;
      context.rect(x - 6, y - 7, 12, 14);
      context.moveTo(x - 4, y - 4); context.lineTo(x + 4, y + 4);
      context.moveTo(x + 4, y - 4); context.lineTo(x - 4, y + 4);
    }
  }
  context.stroke();
}

function drawFrame(context, { spans, rows, from, to, width, height, palette, scale }) {
  context.fillStyle = palette.ground;
  context.fillRect(0, 0, LABEL - 2, height);
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = palette.quiet;
  rows.forEach((row, at) => context.fillText(spans.names[row], 2, AXIS + at * ROW + 13, LABEL - 8));
  const length = to - from;
  const step = [1, 2, 5, 10, 20, 30, 60].find((each) => (width - LABEL) / (length / each) > 64) || 60;
  for (let back = 0; back <= length; back += step) {
    const x = LABEL + (length - back) * scale;
    context.globalAlpha = 0.18;
    context.fillRect(x, AXIS - 2, 1, height);
    context.globalAlpha = 1;
    const text = back ? `−${back} s` : "now";
    if (x - LABEL > 24) context.fillText(text, x - context.measureText(text).width - 4, 11);
  }
}

const paletteOf = () => ({
  ground: colour("--ground"), quiet: colour("--quiet"), bad: colour("--bad"),
  kinds: Array.from({ length: KINDS }, (_, kind) => kindColour(kind)),
});

// Returns the rows to show: those with a span in the window, and those that run something, in the order of their names.
function rowsOf(spans, from, running) {
  const found = new Set([...spans.rowsSince(from), ...running.map((each) => each.row)]);
  const byName = (a, b) => spans.names[a].localeCompare(spans.names[b], "en", { numeric: true });
  return [...found].sort(byName).slice(0, ROWS_MAX);
}

// Runs `paint` about 30 times a second while the canvas is in sight; once a second if the reader prefers less motion.
function useFrames(canvas, paint, key) {
  useEffect(() => {
    let timer = 0;
    let last = 0;
    let inSight = true;
    const watcher = new IntersectionObserver(([entry]) => { inSight = entry.isIntersecting; });
    watcher.observe(canvas.current);
    const frame = (now) => {
      timer = requestAnimationFrame(frame);
      if (!inSight || now - last < (calm() ? CALM_MS : FRAME_MS)) return;
      last = now;
      paint();
    };
    timer = requestAnimationFrame(frame);
    return () => { cancelAnimationFrame(timer); watcher.disconnect(); };
  }, [key]);
}

// Props: spans (parts/spans.js), live() -> {running: [{name, row, begin}], now}, window (seconds), describe(fact) -> text.
export function Stream({ spans, live, window: length, describe }) {
  const canvas = useRef(null);
  const [tip, setTip] = useState("");
  const state = useRef({ rows: [], looked: 0 });
  useFrames(canvas, () => {
    const node = canvas.current;
    if (!node) return;
    const { running, now } = live();
    const from = now - length;
    if (Date.now() - state.current.looked > 1000) {
      state.current = { rows: rowsOf(spans, from, running), looked: Date.now(), palette: paletteOf() };
    }
    const { rows, palette } = state.current;
    const ratio = Math.min(2, globalThis.devicePixelRatio || 1);
    const [width, height] = [node.parentElement.clientWidth, AXIS + Math.max(3, rows.length) * ROW + 4];
    if (node.width !== Math.round(width * ratio) || node.height !== Math.round(height * ratio)) {
      node.width = Math.round(width * ratio);
      node.height = Math.round(height * ratio);
      node.style.width = `${width}px`;
      node.style.height = `${height}px`;
    }
    const context = node.getContext("2d", { alpha: false });
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw(context, { spans, running, rows, from, to: now, width, height, palette });
  }, `${length} ${colours.value}`);
  const point = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const row = state.current.rows[Math.floor((event.clientY - box.top - AXIS) / ROW)];
    const scale = (box.width - LABEL) / length;
    const time = live().now - length + (event.clientX - box.left - LABEL) / scale;
    const found = row === undefined ? null : spans.at(row, time, 2 / scale);
    setTip(found ? `${describe(found.fact)}, ${seconds(found.end - found.begin)}${found.failed ? ", failed" : ""}` : "");
  };
  return html`<div class="stream">
    <div><canvas ref=${canvas} role="img" aria-label="Tasks by worker over time; the table shows the same" onPointerMove=${point}
      onPointerLeave=${() => setTip("")}></canvas></div>
    <p class="tip mono">${tip || " "}</p>
  </div>`;
}
