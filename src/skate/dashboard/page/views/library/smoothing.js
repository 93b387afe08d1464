// Smooths a curve as TensorBoard does: an exponential mean that is not pulled towards zero at its beginning.
export function smoothed(values, weight) {
  if (!weight) return values;
  let mean = 0;
  let sum = 0;
  return values.map((value) => {
    if (value === null || value === undefined) return null;
    mean = mean * weight + (1 - weight) * value;
    sum = sum * weight + (1 - weight);
    return mean / sum;
  });
}
