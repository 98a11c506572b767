// Sums of T, each multiplied by a factor at the end (the mean's 1/n) and given as U. The order of additions is fixed: by thread, warp, block, part.

typedef math_t<T> A;

// What one thread of `width` adds up of the elements from `begin` to `end`: packs while it can, several loads at a time.
__device__ __forceinline__ A share(const View &x, u64 begin, u64 end, u32 lane, u32 width) {
  const int N = Width<T>::value;
  A sums[4] = {A(0), A(0), A(0), A(0)};
  In<T> t(x);
  u64 i = begin;
  if (t.packs<N>() && begin % N == 0) {
    u64 packed = begin + (end - begin) / N * N;
    u64 at = begin + (u64)lane * N;
    for (; at + 3ull * width * N < packed; at += 4ull * width * N) {
      Pack<T, N> p[4];
#pragma unroll
      for (int u = 0; u < 4; u++) t.load(p[u], t.place(at + (u64)u * width * N));
#pragma unroll
      for (int u = 0; u < 4; u++)
#pragma unroll
        for (int j = 0; j < N; j++) sums[u] += widen(p[u][j]);
    }
    for (; at < packed; at += (u64)width * N) {
      Pack<T, N> p;
      t.load(p, t.place(at));
#pragma unroll
      for (int j = 0; j < N; j++) sums[0] += widen(p[j]);
    }
    i = packed;
  }
  for (i += lane; i < end; i += width) sums[0] += widen(t.at(i));
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Everything. One block gives the result; several give a part each, at `parts`, for `sum_parts`.
KERNEL sum_all(u64 n, double factor, U *out, A *parts, VIEW x) {
  const u64 N = Width<T>::value;
  u64 chunk = (n + gridDim.x - 1) / gridDim.x;
  chunk = (chunk + N - 1) / N * N;
  u64 begin = min(n, chunk * blockIdx.x), end = min(n, begin + chunk);
  A sum = block_reduce<Sum>(share(x, begin, end, threadIdx.x, blockDim.x));
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1) out[0] = narrow<U>(sum * A(factor));
  else parts[blockIdx.x] = sum;
}

// Each row of `columns` elements.
KERNEL sum_rows(u64 rows, u64 columns, u32 wide, double factor, U *out, VIEW x) {
  Row row(wide);
  if (row.index >= rows) return;
  A sum = row.reduce<Sum>(share(x, row.index * columns, (row.index + 1) * columns, row.lane, row.width));
  if (row.lane == 0) out[row.index] = narrow<U>(sum * A(factor));
}

// Each column, over rows: 32 columns and 32 rows at a time a block. Several blocks in y share the rows, and give a part each.
KERNEL __launch_bounds__(1024) sum_columns(u64 rows, u64 columns, double factor, U *out, A *parts, VIEW x) {
  __shared__ A tile[32][33];
  In<T> t(x);
  u64 column = (u64)blockIdx.x * 32 + threadIdx.x;
  u64 chunk = (rows + gridDim.y - 1) / gridDim.y, end = min(rows, chunk * (blockIdx.y + 1));
  A sums[4] = {A(0), A(0), A(0), A(0)};
  if (column < columns) {
    u64 r = chunk * blockIdx.y + threadIdx.y;
    for (; r + 224 < end; r += 256) {
      T v[8];
#pragma unroll
      for (int u = 0; u < 8; u++) v[u] = t.at((r + u * 32) * columns + column);
#pragma unroll
      for (int u = 0; u < 8; u++) sums[u % 4] += widen(v[u]);
    }
    for (; r < end; r += 32) sums[0] += widen(t.at(r * columns + column));
  }
  tile[threadIdx.y][threadIdx.x] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  __syncthreads();
  A sum = warp_reduce<Sum>(tile[threadIdx.x][threadIdx.y]);
  column = (u64)blockIdx.x * 32 + threadIdx.y;
  if (threadIdx.x != 0 || column >= columns) return;
  if (gridDim.y == 1) out[column] = narrow<U>(sum * A(factor));
  else parts[blockIdx.y * columns + column] = sum;
}

// Each column of few rows: a thread has it alone.
KERNEL sum_short_columns(u64 rows, u64 columns, double factor, U *out, VIEW x) {
  In<T> t(x);
  for (u64 c = thread_index(); c < columns; c += thread_count()) {
    A sum = A(0);
#pragma unroll 4
    for (u64 r = 0; r < rows; r++) sum += widen(t.at(r * columns + c));
    out[c] = narrow<U>(sum * A(factor));
  }
}

// Each column of [rows, columns, inner], a block. Several blocks in y share its elements, and give a part each.
KERNEL sum_planes(u64 rows, u64 columns, u64 inner, double factor, U *out, A *parts, VIEW x) {
  const int N = Width<T>::value;
  In<T> t(x);
  A sums[4] = {A(0), A(0), A(0), A(0)};
  bool packs = inner % N == 0 && rows * inner < 1ull << 31 && t.packs<N>();
  u64 pieces = packs ? inner / N : inner, all = rows * pieces, chunk = (all + gridDim.y - 1) / gridDim.y;
  u64 end = min(all, chunk * (blockIdx.y + 1)), i = chunk * blockIdx.y + threadIdx.x;
  if (packs) {
    for (; i < end; i += 4 * blockDim.x) {
      Pack<T, N> p[4];
#pragma unroll
      for (int u = 0; u < 4; u++) {
        u32 at = (u32)i + u * blockDim.x, row = at / (u32)pieces;
        if (at < end) t.load(p[u], t.place((row * columns + blockIdx.x) * inner + (u64)(at - row * (u32)pieces) * N));
      }
#pragma unroll
      for (int u = 0; u < 4; u++) {
        if (i + u * blockDim.x >= end) break;
#pragma unroll
        for (int j = 0; j < N; j++) sums[u] += widen(p[u][j]);
      }
    }
  } else {
    for (; i < end; i += blockDim.x) sums[0] += widen(t.at((i / inner * columns + blockIdx.x) * inner + i % inner));
  }
  A sum = block_reduce<Sum>((sums[0] + sums[1]) + (sums[2] + sums[3]));
  if (threadIdx.x != 0) return;
  if (gridDim.y == 1) out[blockIdx.x] = narrow<U>(sum * A(factor));
  else parts[blockIdx.y * columns + blockIdx.x] = sum;
}

// Adds up `count` parts of each of `columns` results.
KERNEL sum_parts(u64 count, u64 columns, double factor, U *out, const A *parts) {
  for (u64 c = thread_index(); c < columns; c += thread_count()) {
    A sum = A(0);
    for (u64 i = 0; i < count; i++) sum += parts[i * columns + c];
    out[c] = narrow<U>(sum * A(factor));
  }
}

// The same where there is one result: a block adds up all parts.
KERNEL sum_parts_of_one(u64 count, double factor, U *out, const A *parts) {
  A sum = A(0);
  for (u64 i = threadIdx.x; i < count; i += blockDim.x) sum += parts[i];
  sum = block_reduce<Sum>(sum);
  if (threadIdx.x == 0) out[0] = narrow<U>(sum * A(factor));
}

// Any other shape: `kept` says where the elements of each result begin, `reduced` which they are from there. A warp a result.
KERNEL sum_strided(u64 outputs, u64 inputs, double factor, U *out, VIEW kept, VIEW reduced) {
  Row row(0);
  if (row.index >= outputs) return;
  const T *p = reinterpret_cast<const T *>(kept.address) + offset(kept, row.index);
  A sum = A(0);
  for (u64 i = row.lane; i < inputs; i += 32) sum += widen(p[offset(reduced, i)]);
  sum = row.reduce<Sum>(sum);
  if (row.lane == 0) out[row.index] = narrow<U>(sum * A(factor));
}
