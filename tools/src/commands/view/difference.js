"use strict";

// The lines that two texts have in common, as pairs of places in order. Lines that stand once in each
// text tie the texts together; what lies between is compared by Myers, An O(ND) Difference Algorithm
// and Its Variations, 1986, as long as it differs in few lines. So the time is in proportion to the
// texts, but for sorting.
function common(a, b) {
  const numbers = new Map();
  const number = (line) => {
    if (!numbers.has(line)) numbers.set(line, numbers.size);
    return numbers.get(line);
  };
  const [x, y] = [Int32Array.from(a, number), Int32Array.from(b, number)];
  const counts = [new Uint8Array(numbers.size), new Uint8Array(numbers.size)];
  const place = new Int32Array(numbers.size);
  const pairs = [];
  // Parts still to be compared, the first one on top, and pairs that are found.
  const pending = [[0, x.length, 0, y.length]];
  while (pending.length > 0) {
    let [i, n, j, m] = pending.pop();
    while (i < n && j < m && x[i] === y[j]) pairs.push([i++, j++]);
    let equal = 0;
    while (n > i && m > j && x[n - 1] === y[m - 1]) { n -= 1; m -= 1; equal += 1; }
    if (equal > 0) pending.push([n, n + equal, m, m + equal]);
    if (i === n || j === m) continue;
    const anchors = increasing(unique(x, i, n, y, j, m, counts, place));
    if (anchors.length === 0) {
      pairs.push(...few(x, i, n, y, j, m));
      continue;
    }
    const parts = [];
    for (const [p, q] of anchors) {
      parts.push([i, p, j, q], [p, p + 1, q, q + 1]);
      [i, j] = [p + 1, q + 1];
    }
    parts.push([i, n, j, m]);
    for (let part = parts.length - 1; part >= 0; part -= 1) pending.push(parts[part]);
  }
  return pairs;
}

// Lines that stand once in either part, as pairs, in the order of the first.
function unique(x, i, n, y, j, m, counts, place) {
  for (let at = i; at < n; at += 1) if (counts[0][x[at]] < 2) counts[0][x[at]] += 1;
  for (let at = j; at < m; at += 1) {
    if (counts[1][y[at]] < 2) counts[1][y[at]] += 1;
    place[y[at]] = at;
  }
  const found = [];
  for (let at = i; at < n; at += 1) {
    if (counts[0][x[at]] === 1 && counts[1][x[at]] === 1) found.push([at, place[x[at]]]);
  }
  for (let at = i; at < n; at += 1) counts[0][x[at]] = 0;
  for (let at = j; at < m; at += 1) counts[1][y[at]] = 0;
  return found;
}

// A longest part of `pairs` whose second numbers increase.
function increasing(pairs) {
  const ends = [];
  const before = new Int32Array(pairs.length).fill(-1);
  pairs.forEach(([, value], index) => {
    let [low, high] = [0, ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pairs[ends[middle]][1] < value) low = middle + 1;
      else high = middle;
    }
    if (low > 0) before[index] = ends[low - 1];
    ends[low] = index;
  });
  const found = [];
  for (let at = ends.length > 0 ? ends[ends.length - 1] : -1; at >= 0; at = before[at]) found.push(pairs[at]);
  return found.reverse();
}

// Parts that differ in more lines are replaced as a whole.
const MOST_EDITS = 300;

// What two parts have in common, where they differ in few lines.
function few(x, i, n, y, j, m) {
  const [width, height] = [n - i, m - j];
  const most = Math.min(width + height, MOST_EDITS);
  const reached = new Int32Array(2 * most + 3);
  const trace = [];
  for (let d = 0; d <= most; d += 1) {
    trace.push(reached.slice(most - d, most + d + 3));
    for (let k = -d; k <= d; k += 2) {
      const at = most + 1 + k;
      const down = k === -d || (k !== d && reached[at - 1] < reached[at + 1]);
      let p = down ? reached[at + 1] : reached[at - 1] + 1;
      while (p < width && p - k < height && x[i + p] === y[j + p - k]) p += 1;
      reached[at] = p;
      if (p >= width && p - k >= height) return back(trace, i, width, j, height);
    }
  }
  return [];
}

function back(trace, i, width, j, height) {
  const found = [];
  let [p, q] = [width, height];
  for (let d = trace.length - 1; d >= 0; d -= 1) {
    // Diagonals from -d - 1 to d + 1.
    const reached = (k) => trace[d][k + d + 1];
    const k = p - q;
    const down = k === -d || (k !== d && reached(k - 1) < reached(k + 1));
    const from = d === 0 ? [0, 0] : down ? [reached(k + 1), reached(k + 1) - k - 1] : [reached(k - 1), reached(k - 1) - k + 1];
    while (p > from[0] && q > from[1]) found.push([i + --p, j + --q]);
    [p, q] = from;
  }
  return found.reverse();
}
