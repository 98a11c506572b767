// Rows of a table by index. Every row of the gradient is summed by one warp or block, in the order of places, so that sums repeat.

typedef math_t<T> A;

KERNEL embedding_forward(u64 rows, u64 columns, u32 wide, const T *weight, const i64 *indices, T *out) {
  Row row(wide);
  if (row.index >= rows) return;
  const T *from = weight + (u64)indices[row.index] * columns;
  T *to = out + row.index * columns;
  for (u64 j = row.lane; j < columns; j += row.width) to[j] = from[j];
}

__device__ __forceinline__ u64 warp_index() { return (u64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5); }

// The first place from `begin` up to `end` whose index is `index`, or `end`. The whole warp asks.
__device__ __forceinline__ u64 find(const i64 *indices, i64 index, u64 begin, u64 end) {
  u32 lane = threadIdx.x & 31;
  for (u64 at = begin; at < end; at += 32) {
    u32 found = __ballot_sync(0xffffffffu, at + lane < end && indices[at + lane] == index);
    if (found) return at + __ffs(found) - 1;
  }
  return end;
}

// For few indices: whoever holds an index's first place sums up all of them.
KERNEL embedding_backward(u64 rows, u64 columns, T *out, const T *grad, const i64 *indices) {
  u64 place = warp_index();
  if (place >= rows) return;
  i64 index = indices[place];
  if (find(indices, index, 0, place) < place) return;
  T *to = out + (u64)index * columns;
  for (u64 begin = 0; begin < columns; begin += 256) {
    A sum[8];
#pragma unroll
    for (int k = 0; k < 8; k++) sum[k] = A(0);
    for (u64 at = place; at < rows; at = find(indices, index, at + 1, rows)) {
      const T *from = grad + at * columns;
#pragma unroll
      for (int k = 0; k < 8; k++) {
        u64 j = begin + k * 32 + (threadIdx.x & 31);
        if (j < columns) sum[k] += widen(from[j]);
      }
    }
#pragma unroll
    for (int k = 0; k < 8; k++) {
      u64 j = begin + k * 32 + (threadIdx.x & 31);
      if (j < columns) to[j] = narrow<T>(sum[k]);
    }
  }
}

// For many: whether each place is its index's first, and where that index comes next (`rows`: nowhere).
KERNEL embedding_links(u64 rows, const i64 *indices, u64 *first, u64 *next) {
  u64 place = warp_index();
  if (place >= rows) return;
  i64 index = indices[place];
  u64 before = find(indices, index, 0, place), after = find(indices, index, place + 1, rows);
  if ((threadIdx.x & 31) == 0) first[place] = before == place, next[place] = after;
}

KERNEL embedding_backward_linked(
    u64 rows, u64 columns, u32 wide, T *out, const T *grad, const i64 *indices, const u64 *first, const u64 *next) {
  Row row(wide);
  if (row.index >= rows || !first[row.index]) return;
  T *to = out + (u64)indices[row.index] * columns;
  for (u64 j = row.lane; j < columns; j += row.width) {
    A sum = A(0);
    for (u64 at = row.index; at < rows; at = next[at]) sum += widen(grad[at * columns + j]);
    to[j] = narrow<T>(sum);
  }
}
