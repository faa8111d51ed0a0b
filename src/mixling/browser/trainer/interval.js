/** Return the 95% interval of a fraction (Wilson 1927); of nothing, all of it. */
export function interval(right, number) {
  if (!number) return [0, 1];
  const z = 1.959963984540054;
  const [p, square] = [right / number, (z * z) / number];
  const middle = (p + square / 2) / (1 + square);
  const half = (z * Math.sqrt((p * (1 - p)) / number + square / (4 * number))) / (1 + square);
  return [Math.max(middle - half, 0), Math.min(middle + half, 1)];
}
