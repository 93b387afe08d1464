// The last spans of work, kept in rings of typed arrays, one for each colour: they are drawn without an object for each.
import { KINDS, kindOf } from "../theme.js";

//: The most spans of a colour.
const EACH_MAX = 1 << 15;
//: From so many rows on, those without spans are used again: workers come and go.
const ROWS_MAX = 2048;

class Ring {
  constructor(size) {
    this.size = size;
    this.begins = new Float64Array(size);
    this.ends = new Float64Array(size);
    this.rows = new Uint16Array(size);
    this.failed = new Uint8Array(size);
    this.facts = new Array(size);
    this.next = 0;
    this.count = 0;
  }

  add(begin, end, row, failed, fact) {
    const at = this.next;
    this.begins[at] = begin;
    this.ends[at] = end;
    this.rows[at] = row;
    this.failed[at] = failed ? 1 : 0;
    this.facts[at] = fact;
    this.next = (at + 1) % this.size;
    this.count = Math.min(this.size, this.count + 1);
  }
}

// Spans by row (a worker) and by colour (a function). Times are in seconds since 1970.
export class Spans {
  constructor(size = EACH_MAX) {
    this.rings = Array.from({ length: KINDS }, () => new Ring(size));
    this.rows = new Map();
    this.names = [];
    this.free = [];
    this.latest = 0;
  }

  get count() {
    return this.rings.reduce((sum, ring) => sum + ring.count, 0);
  }

  rowOf(name) {
    let row = this.rows.get(name);
    if (row === undefined) {
      if (!this.free.length && this.names.length >= ROWS_MAX) this.reclaim();
      row = this.free.length ? this.free.pop() : this.names.length;
      this.rows.set(name, row);
      this.names[row] = name;
    }
    return row;
  }

  // Frees the rows that no span is in; if all are in use, the spans of the first half go.
  reclaim() {
    const used = new Uint8Array(this.names.length);
    const half = this.names.length >> 1;
    for (const ring of this.rings) for (let at = 0; at < ring.count; at += 1) used[ring.rows[at]] = 1;
    const full = used.every((each) => each === 1);
    for (let row = 0; row < this.names.length; row += 1) {
      if (used[row] && !(full && row < half)) continue;
      this.rows.delete(this.names[row]);
      this.free.push(row);
    }
    if (!full) return;
    for (const ring of this.rings) {
      for (let at = 0; at < ring.count; at += 1) if (ring.rows[at] < half) ring.ends[at] = ring.begins[at] = 0;
    }
  }

  add(name, rowName, begin, end, failed, fact) {
    this.rings[kindOf(name)].add(begin, end, this.rowOf(rowName), failed, fact);
    if (end > this.latest) this.latest = end;
  }

  // Returns the span of a row at a time, the latest one if there are several.
  at(row, time, slack) {
    let best = null;
    for (const ring of this.rings) {
      for (let at = 0; at < ring.count; at += 1) {
        if (ring.rows[at] === row && ring.begins[at] <= time + slack && ring.ends[at] >= time - slack) {
          if (!best || ring.begins[at] > best.begin) best = { begin: ring.begins[at], end: ring.ends[at],
            failed: ring.failed[at] === 1, fact: ring.facts[at] };
        }
      }
    }
    return best;
  }

  // Returns the rows that have a span after a time, in the order of their names.
  rowsSince(time) {
    const seen = new Uint8Array(this.names.length);
    for (const ring of this.rings) for (let at = 0; at < ring.count; at += 1) if (ring.ends[at] >= time) seen[ring.rows[at]] = 1;
    return this.names.map((name, row) => row).filter((row) => seen[row]);
  }
}
