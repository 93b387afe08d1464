// The lines of all streams that the page has fetched. They stay while other views are shown; a closed tab forgets them.
import { signal } from "../../dom.js";
import { ask } from "../../session.js";

//: The most lines of a stream and of all, and the most streams of one question.
const LINES_MAX = 20_000;
const ALL_MAX = 300_000;
const ASKED_MAX = 60;
const ESCAPES = /\u001b\[[0-9;?]*[A-Za-z]/g;

export const store = {
  //: By "node pid.out": {key, node, pid, suffix, name, next, open, lost}.
  streams: new Map(),
  //: All lines in the order in which they have come: {stream, text, task, number}.
  lines: [],
  turn: signal(0),
};

const keyOf = (row) => `${row.node_id} ${row.pid}.${row.stream}`;

function takeStreams(rows) {
  for (const row of rows) {
    const key = keyOf(row);
    const known = store.streams.get(key) || { key, node: row.node_id, pid: row.pid, suffix: row.stream, next: 0, lost: 0,
      name: "" };
    store.streams.set(key, { ...known, name: known.actor ? known.name : row.name || known.name, end: row.end, open: row.open });
  }
}

function takeLines(rows) {
  const come = [];
  for (const row of rows) {
    const stream = store.streams.get(keyOf(row));
    if (!stream) continue;
    const skipped = Math.max(0, stream.next - row.start);
    stream.lost += stream.next ? Math.max(0, row.start - stream.next) : 0;
    row.lines.slice(skipped).slice(-LINES_MAX).forEach((text, at) => {
      come.push({ stream, text: text.replace(ESCAPES, ""), task: row.tasks[skipped + at], number: row.start + skipped + at });
    });
    stream.next = row.start + row.lines.length;
  }
  if (!come.length) return;
  store.lines = store.lines.concat(come);
  if (store.lines.length > ALL_MAX) store.lines = store.lines.slice(-ALL_MAX);
  store.turn.value += 1;
}

// Takes the list of streams, and then asks for the lines that are new, until there are none or `stop` is aborted.
export async function update({ streams }, stop) {
  takeStreams(streams);
  store.turn.value += 1;
  for (let round = 0; round < 100; round += 1) {
    const behind = [...store.streams.values()].filter((stream) => stream.next < stream.end).slice(0, ASKED_MAX);
    if (!behind.length || stop.aborted) return;
    const cursor = behind.map((stream) => `${stream.node.slice(0,
      16)}:${stream.pid}.${stream.suffix}=${stream.next}`).join(",");
    const { rows } = await ask("api/skate/logs/lines", { cursor }, { signal: stop });
    takeLines(rows);
    if (!rows.length) {
      for (const stream of behind) stream.next = stream.end; // they are gone
      return;
    }
  }
}

export const nameOf = (stream) => `${stream.name ? `${stream.name} ` : ""}pid ${stream.pid}${stream.suffix === "err" ? " stderr"
  : ""}`;
