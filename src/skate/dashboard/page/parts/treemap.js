// A squarified treemap: rectangles whose areas are amounts, as near to squares as they come (Bruls, Huizing, van Wijk 2000).

const worst = (row, sum, side, scale) => {
  const length = (sum * scale) / side;
  return row.reduce((most, value) => {
    const other = (value * scale) / length;
    return Math.max(most, length / other, other / length);
  }, 0);
};

// Returns [x, y, width, height] for each amount. The amounts are positive, the largest first.
export function squares(amounts, width, height) {
  const total = amounts.reduce((sum, value) => sum + value, 0);
  if (!total || width <= 0) return amounts.map(() => [0, 0, 0, 0]);
  const scale = (width * height) / total;
  const found = [];
  let [x, y, w, h] = [0, 0, width, height];
  let at = 0;
  while (at < amounts.length) {
    const side = Math.min(w, h);
    let end = at + 1;
    let sum = amounts[at];
    while (end < amounts.length && worst(amounts.slice(at, end + 1), sum + amounts[end], side, scale) <= worst(amounts.slice(at,
      end), sum, side, scale)) {
      sum += amounts[end];
      end += 1;
    }
    const thick = side ? (sum * scale) / side : 0;
    let along = 0;
    for (const value of amounts.slice(at, end)) {
      const length = thick ? (value * scale) / thick : 0;
      found.push(w >= h ? [x, y + along, thick, length] : [x + along, y, length, thick]);
      along += length;
    }
    if (w >= h) { x += thick; w -= thick; } else { y += thick; h -= thick; }
    at = end;
  }
  return found;
}
