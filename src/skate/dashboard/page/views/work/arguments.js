// The graph around a task: what its arguments wait for on the left, who waits for its values on the right.
import { html, useEffect } from "../../dom.js";
import { bytes, number, short } from "../../format.js";
import { useAsked } from "../../parts/asked.js";
import { State } from "../../parts/states.js";
import { link } from "../../router.js";

//: The size of a box and of the gaps between boxes, in pixels.
const [WIDTH, HEIGHT, ACROSS, DOWN] = [190, 62, 56, 12];
const AGAIN_MS = 2000;
const TASK_DIGITS = 48;
const PLACES = { inline: "here", memory: "in memory", disk: "spilled to disk", elsewhere: "on another node", error: "an error",
  pending: "not here yet" };

// Returns the boxes with their places, the lines between them, and the size of the drawing.
export function layout({ entries, edges }) {
  const depths = [...new Set(entries.map((each) => each.depth))].sort((a, b) => a - b);
  const columns = depths.map((depth) => entries.filter((each) => each.depth === depth));
  const tallest = Math.max(0, ...columns.map((column) => column.length));
  const boxes = new Map();
  columns.forEach((column, across) => {
    const top = ((tallest - column.length) * (HEIGHT + DOWN)) / 2;
    column.forEach((each, at) => boxes.set(each.id, { ...each, x: across * (WIDTH + ACROSS), y: top + at * (HEIGHT + DOWN) }));
  });
  const lines = edges.filter((each) => boxes.has(each.from) && boxes.has(each.to))
    .map((each) => ({ ...each, user: boxes.get(each.from), maker: boxes.get(each.to) }));
  return { boxes: [...boxes.values()], lines, width: columns.length * (WIDTH + ACROSS) - ACROSS,
    height: tallest * (HEIGHT + DOWN) - DOWN };
}

const nameOf = (each) => {
  if (each.kind === "process") return "the program";
  return each.kind === "value" ? `value ${each.name ? `of ${each.name}` : short(each.id)}` : each.name;
};

// A line from a maker to who uses its value; it leaves on the right and arrives on the left, also if it has to go back.
function Line({ maker, user, there, how }) {
  const [x1, y1, x2, y2] = [maker.x + WIDTH, maker.y + HEIGHT / 2, user.x - 5, user.y + HEIGHT / 2];
  const bend = Math.max(24, (x2 - x1) / 2);
  return html`<path d=${`M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`}
    class=${`${there ? "there" : ""} ${how}`} marker-end="url(#arrow)" />`;
}

// What the lines say, for those who do not see them.
function relations(box, lines) {
  const names = (found) => found.map(nameOf).join(", ");
  const needs = lines.filter((each) => each.from === box.id).map((each) => each.maker);
  const users = lines.filter((each) => each.to === box.id).map((each) => each.user);
  const texts = [needs.length ? `needs ${names(needs)}` : "", users.length ? `needed by ${names(users)}` : ""];
  return texts.filter(Boolean).join("; ");
}

function Box({ box, lines }) {
  const name = nameOf(box);
  const style = { left: `${box.x}px`, top: `${box.y}px`, width: `${WIDTH}px`, height: `${HEIGHT}px` };
  const state = box.kind === "task" ? html`<${State} state=${box.state} />`
    : html`<span class="quiet small">${box.kind === "process" ? "waits in get" : `${PLACES[box.state] || box.state}${box.size
      ? `, ${bytes(box.size)}` : ""}`}</span>`;
  // A value is that of the task whose id it begins with.
  const has = box.depth !== 0 && (box.kind === "task" || (box.kind === "value" && box.name));
  const title = has ? html`<a href=${link("work", ["task", box.id.slice(0, TASK_DIGITS)])}>${name}</a>`
    : html`<strong>${name}</strong>`;
  return html`<li class=${`box ${box.kind} ${box.depth === 0 ? "centre" : ""}`} style=${style} title=${box.why}>
    <div class="name">${title}</div><div>${state}${box.more ? html` <span class="quiet small">+${number(box.more)} more</span>`
      : ""}</div>
    <span class="unseen">${relations(box, lines)}${box.why ? `. ${box.why}` : ""}</span></li>`;
}

export function Arguments({ id, open }) {
  const [answer, , again] = useAsked(`api/skate/task/${id}/arguments`);
  useEffect(() => {
    if (!open || !answer) return undefined;
    const timer = setTimeout(() => !document.hidden && again(), AGAIN_MS);
    return () => clearTimeout(timer);
  }, [answer, open]);
  if (!answer || answer.entries.length < 2) return "";
  const { boxes, lines, width, height } = layout(answer);
  const size = { width: `${width}px`, height: `${height}px` };
  return html`<section class="card wide" aria-labelledby="arguments"><h2 id="arguments">What it needs, and who needs it</h2>
    <p class="quiet small">Values go from left to right. A full line is waited for, a dotted one has arrived.</p>
    <div class="scroll graph" role="region" aria-label="Graph of arguments" tabindex="0"><div class="all" style=${size}>
      <svg width=${width} height=${height} aria-hidden="true"><defs><marker id="arrow" viewBox="0 0 8 8" refX="4" refY="4"
        markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z" /></marker></defs>
        ${lines.map((each) => html`<${Line} key=${`${each.from} ${each.to}`} ...${each} />`)}</svg>
      <ul>${boxes.map((box) => html`<${Box} key=${box.id} box=${box} lines=${lines} />`)}</ul></div></div></section>`;
}
