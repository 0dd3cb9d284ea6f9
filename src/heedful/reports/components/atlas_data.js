// Heads as numbers: opened when looked at, remembered while room is left. The layout is told in atlas_data.py.
const OPEN_HEADS = 64;  // decoded heads kept in memory

const bytesOf = async (base64) => {
  const text = atob(base64);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
};

// (bytes, [L, H, Q, K], top, dense) -> one head; row q has its weights at start[q] to start[q + 1].
const opened = (bytes, [, , Q, K], top, dense) => {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const unit = new Float64Array(Q);
  for (let q = 0; q < Q; q++) unit[q] = view.getUint16(2 * q, true) * top / 65535 / 255;
  const start = new Uint32Array(Q + 1);
  if (dense) {
    for (let q = 0; q <= Q; q++) start[q] = q * K;
    return { Q, K, unit, start, steps: bytes.subarray(2 * Q), columns: null, rest: new Float32Array(Q) };
  }
  const rest = Float32Array.from(bytes.subarray(2 * Q, 3 * Q), (share) => share / 255);
  for (let q = 0; q < Q; q++) start[q + 1] = start[q] + view.getUint16(3 * Q + 2 * q, true);
  const steps = bytes.subarray(5 * Q, 5 * Q + start[Q]);
  const columns = new Uint16Array(start[Q]);
  let at = 5 * Q + start[Q];
  for (let q = 0; q < Q; q++) {
    for (let i = start[q], column = -1; i < start[q + 1]; i++) {
      let gap = bytes[at++];
      if (gap === 255) { gap = bytes[at] + 256 * bytes[at + 1]; at += 2; }
      columns[i] = column += gap + 1;
    }
  }
  return { Q, K, unit, start, steps, columns, rest };
};

// Weight at (q, k); -1 where it was left out.
const weightAt = (head, q, k) => {
  if (!head.columns) return head.steps[q * head.K + k] * head.unit[q];
  let low = head.start[q], high = head.start[q + 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (head.columns[middle] < k) low = middle + 1; else high = middle;
  }
  return low < head.start[q + 1] && head.columns[low] === k ? head.steps[low] * head.unit[q] : -1;
};

// No weight left out of row q is above this: under the threshold, or so small that it rounds to nothing.
const below = (head, q, threshold) => {
  let least = 256;
  for (let i = head.start[q]; i < head.start[q + 1]; i++) least = Math.min(least, head.steps[i]);
  const most = Math.max(threshold, head.unit[q] / 2);
  return least > 255 ? most : Math.min(most, (least + 0.5) * head.unit[q]);
};

const remembered = new Map();
const headOf = async (stack, layer, head) => {
  const place = layer * stack.shape[1] + head;
  const key = `${stack.id}/${place}`;
  if (!remembered.has(key)) {
    if (remembered.size >= OPEN_HEADS) remembered.delete(remembered.keys().next().value);
    remembered.set(key, bytesOf(stack.heads[place]).then((bytes) => opened(bytes, stack.shape, stack.top, stack.dense)));
  }
  const found = remembered.get(key);
  remembered.delete(key);  // the last looked at is forgotten last
  remembered.set(key, found);
  return found;
};
