// What all attention kernels share: their one argument, and what a weight is. Defined in front of everything: HEAD, the features of a head
// rounded up, a constant of the tiles; and DROPS, whether there is dropout.

struct Matrix { u64 address, batch, head, row; };

struct Attention {
  Matrix q, k, v, out, grad, dq, dk, dv;
  u64 log_sums, pitch, sums;
  u64 batches, heads, kv_heads, length, features, causal;
  double scale, keep;
  u64 seed, stream;
};
#define ATTENTION const __grid_constant__ Attention

__device__ __forceinline__ T *row_of(const Matrix &m, u64 batch, u64 head, u64 row) {
  return reinterpret_cast<T *>(m.address) + batch * m.batch + head * m.head + row * m.row;
}

// What a weight is multiplied by: 1, or with dropout 0 or 1 / keep, the same in every pass.
__device__ __forceinline__ float noise(const Attention &a, u64 head, u64 row, u64 column) {
#if DROPS
  u64 element = (head * a.length + row) * a.length + column;
  Four bits = philox(a.seed, a.stream, element / 4);
  u32 low = element % 2 ? bits.x[1] : bits.x[0], high = element % 2 ? bits.x[3] : bits.x[2];
  return uniform(element / 2 % 2 ? high : low) < a.keep ? float(1.0 / a.keep) : 0.0f;
#else
  return 1.0f;
#endif
}

__device__ __forceinline__ bool sees(const Attention &a, u64 row, u64 column) {
  return row < a.length && column < a.length && (!a.causal || column <= row);
}

// The sum of gradient times output of each row. A warp a row.
KERNEL attention_row_sums(ATTENTION a) {
  u32 batch = blockIdx.y / (u32)a.heads, head = blockIdx.y % (u32)a.heads;
  u64 row = (u64)blockIdx.x * 4 + threadIdx.x / 32;
  if (row >= a.length) return;
  const T *grad = row_of(a.grad, batch, head, row), *out = row_of(a.out, batch, head, row);
  float sum = 0.0f;
  for (u64 d = threadIdx.x % 32; d < a.features; d += 32) sum += widen(grad[d]) * widen(out[d]);
  sum = warp_reduce<Sum>(sum);
  if (threadIdx.x % 32 == 0) reinterpret_cast<float *>(a.sums)[blockIdx.y * a.length + row] = sum;
}
