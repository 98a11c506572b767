// Attention that keeps no scores, on tensor cores: for half types from compute capability 8.0 on. Products of 16 by 16 and 16 by 8 tiles
// (`mma.m16n8k16`) are added up in f32. A block's four warps have 16 rows each and walk together over tiles of the other side, which are
// copied to shared memory while they compute.
//
// Of a 16 by 8 tile of results a lane has two neighbours in the rows lane / 4 and lane / 4 + 8: elements 0, 1 and 2, 3.

const int ROW = HEAD + 8;   // from one row to the next in shared memory: no two rows of a tile begin in the same bank
const int STEPS = HEAD / 16;
const float LOWEST = -3.0e38f, LOG2E = 1.4426950408889634f, LN2 = 0.6931471805599453f;

template <class X> struct Half;
template <> struct Half<f16> {
  static __device__ __forceinline__ void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  static __device__ __forceinline__ u32 pack(float low, float high) {
    u32 x;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
    return x;
  }
};
template <> struct Half<bf16> {
  static __device__ __forceinline__ void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  static __device__ __forceinline__ u32 pack(float low, float high) {
    u32 x;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
    return x;
  }
};
typedef Half<T> H;

__device__ __forceinline__ u32 shared_address(const void *p) {
  u32 x;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(x) : "l"(p));
  return x;
}

// Rows `first` to `first + ROWS` of a head on their way into shared memory; zeros beyond its end. Heads are multiples of eight features.
template <int ROWS> __device__ __forceinline__ void fetch(const Attention &a, const Matrix &m, u64 batch, u64 head, u64 first, T *to) {
  const int PIECES = HEAD / 8;
  for (int i = threadIdx.x; i < ROWS * PIECES; i += 128) {
    int row = i / PIECES, d = i % PIECES * 8;
    bool inside = first + row < a.length && d < a.features;
    const T *from = inside ? row_of(m, batch, head, first + row) + d : row_of(m, batch, head, 0);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to + row * ROW + d)), "l"(from), "r"(inside ? 16 : 0) : "memory");
  }
}

__device__ __forceinline__ void arrived() {
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
}

// A 16 by 16 tile as the left side: rows from `tile` on, features from `d` on.
__device__ __forceinline__ void left(const T *tile, int d, u32 (&x)[4]) {
  int lane = threadIdx.x % 32;
  const T *p = tile + lane / 4 * ROW + d + lane % 4 * 2;
  x[0] = *reinterpret_cast<const u32 *>(p);
  x[1] = *reinterpret_cast<const u32 *>(p + 8 * ROW);
  x[2] = *reinterpret_cast<const u32 *>(p + 8);
  x[3] = *reinterpret_cast<const u32 *>(p + 8 * ROW + 8);
}

// c += left times the transpose of eight rows from `tile` on: features from `d` on are what is summed over.
__device__ __forceinline__ void by_rows(float (&c)[4], const u32 (&x)[4], const T *tile, int d) {
  int lane = threadIdx.x % 32;
  const T *p = tile + lane / 4 * ROW + d + lane % 4 * 2;
  H::mma(c, x, *reinterpret_cast<const u32 *>(p), *reinterpret_cast<const u32 *>(p + 8));
}

// sum[..] += left times 16 rows from `tile` on: the rows are what is summed over.
__device__ __forceinline__ void by_columns(float (&sum)[HEAD / 8][4], const u32 (&x)[4], const T *tile) {
  int lane = threadIdx.x % 32;
  u32 at = shared_address(tile + lane % 16 * ROW + lane / 16 * 8);
#pragma unroll
  for (int n = 0; n < STEPS; n++) {
    u32 y[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(y[0]), "=r"(y[1]), "=r"(y[2]), "=r"(y[3])
                 : "r"(at + n * 16 * (u32)sizeof(T)));
    H::mma(sum[2 * n], x, y[0], y[1]);
    H::mma(sum[2 * n + 1], x, y[2], y[3]);
  }
}

// Two neighbouring tiles of results as a left side.
__device__ __forceinline__ void repack(const float (&low)[4], const float (&high)[4], u32 (&x)[4]) {
  x[0] = H::pack(low[0], low[1]), x[1] = H::pack(low[2], low[3]);
  x[2] = H::pack(high[0], high[1]), x[3] = H::pack(high[2], high[3]);
}

// Writes a warp's 16 rows from `first` on; `scale` is of its upper and lower rows.
__device__ __forceinline__ void store(
    const Attention &a, const Matrix &m, u64 batch, u64 head, u64 first, const float (&sum)[HEAD / 8][4], float upper, float lower) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    u64 row = first + lane / 4 + half * 8;
    if (row >= a.length) continue;
    float scale = half ? lower : upper;
    T *to = row_of(m, batch, head, row);
#pragma unroll
    for (int n = 0; n < HEAD / 8; n++) {
      int d = n * 8 + lane % 4 * 2;
      if (d < a.features) *reinterpret_cast<u32 *>(to + d) = H::pack(sum[n][2 * half] * scale, sum[n][2 * half + 1] * scale);
    }
  }
}

// Over the four lanes that share a row.
template <class Op> __device__ __forceinline__ float across(float x) {
  x = Op::join(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return Op::join(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

KERNEL __launch_bounds__(128) attention_forward(ATTENTION a) {
  const int COLUMNS = HEAD > 128 ? 32 : 64;
  extern __shared__ float4 shared[];
  T *k = reinterpret_cast<T *>(shared), *v = k + COLUMNS * ROW;
  int lane = threadIdx.x % 32;
  u64 batch = blockIdx.y / a.heads, head = blockIdx.y % a.heads, kv_head = head / (a.heads / a.kv_heads);
  // The last rows see the most: they begin first.
  u64 block = (u64)(gridDim.x - 1 - blockIdx.x) * 64, first = block + threadIdx.x / 32 * 16, mine = first + lane / 4;
  u64 end = a.causal && block + 64 < a.length ? block + 64 : a.length;
  fetch<COLUMNS>(a, a.k, batch, kv_head, 0, k);
  u32 q[STEPS][4];
#pragma unroll
  for (int s = 0; s < STEPS; s++)
#pragma unroll
    for (int i = 0; i < 4; i++) {
      u64 row = mine + i % 2 * 8;
      int d = s * 16 + lane % 4 * 2 + i / 2 * 8;
      bool inside = row < a.length && d < a.features;
      q[s][i] = inside ? *reinterpret_cast<const u32 *>(row_of(a.q, batch, head, row) + d) : 0;
    }
  float sum[HEAD / 8][4] = {}, most[2] = {LOWEST, LOWEST}, total[2] = {0.0f, 0.0f}, scale = (float)a.scale * LOG2E;
  for (u64 begin = 0; begin < end; begin += COLUMNS) {
    arrived();
    fetch<COLUMNS>(a, a.v, batch, kv_head, begin, v);
    float s[COLUMNS / 8][4];
#pragma unroll
    for (int n = 0; n < COLUMNS / 8; n++) {
      s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.0f;
#pragma unroll
      for (int step = 0; step < STEPS; step++) by_rows(s[n], q[step], k + n * 8 * ROW, step * 16);
    }
    bool whole = begin + COLUMNS <= a.length && (!a.causal || begin + COLUMNS <= first + 1);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      u64 row = mine + half * 8;
      float high = most[half], part = 0.0f;
#pragma unroll
      for (int n = 0; n < COLUMNS / 8; n++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
          float &x = s[n][2 * half + j];
          x *= scale;
          if (!whole && !sees(a, row, begin + n * 8 + lane % 4 * 2 + j)) x = LOWEST;
          high = fmaxf(high, x);
        }
      high = across<Max>(high);
      float shrink = exp2f(most[half] - high);
      most[half] = high;
#pragma unroll
      for (int n = 0; n < COLUMNS / 8; n++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
          float &x = s[n][2 * half + j];
          x = x > LOWEST ? exp2f(x - high) : 0.0f;
          part += x;
          if (a.keep < 1.0 && x > 0.0f) x *= noise(a, blockIdx.y, row, begin + n * 8 + lane % 4 * 2 + j);
        }
      total[half] = total[half] * shrink + part;
#pragma unroll
      for (int n = 0; n < HEAD / 8; n++) sum[n][2 * half] *= shrink, sum[n][2 * half + 1] *= shrink;
    }
    arrived();
    if (begin + COLUMNS < end) fetch<COLUMNS>(a, a.k, batch, kv_head, begin + COLUMNS, k);
#pragma unroll
    for (int n = 0; n < COLUMNS / 16; n++) {
      u32 weights[4];
      repack(s[2 * n], s[2 * n + 1], weights);
      by_columns(sum, weights, v + n * 16 * ROW);
    }
  }
  float upper = across<Sum>(total[0]), lower = across<Sum>(total[1]);
  if (a.log_sums && lane % 4 == 0) {
    float *to = reinterpret_cast<float *>(a.log_sums) + blockIdx.y * a.pitch;
    if (mine < a.length) to[mine] = (most[0] + log2f(upper)) * LN2;
    if (mine + 8 < a.length) to[mine + 8] = (most[1] + log2f(lower)) * LN2;
  }
  store(a, a.out, batch, head, first, sum, 1.0f / upper, 1.0f / lower);
}

#if HEAD <= 128   // larger sums do not fit into registers

const int OTHERS = 32;   // rows of the other side in a tile of backward

// From scores and products with the incoming gradient: weights as they were dropped, and the gradients of scores.
__device__ __forceinline__ void differentiate(const Attention &a, u64 head, u64 row, u64 column, float log_sum, float row_sum, float &s, float &g) {
  bool seen = sees(a, row, column);
  float w = seen ? exp2f(s * (float)a.scale * LOG2E - log_sum * LOG2E) : 0.0f;
  float n = a.keep < 1.0 && seen ? noise(a, head, row, column) : 1.0f;
  s = w * n;
  g = w * (g * n - row_sum) * (float)a.scale;
}

// Gradients of 64 keys and values: over all queries of the heads that share them.
KERNEL __launch_bounds__(128) attention_backward_keys(ATTENTION a) {
  extern __shared__ float4 shared[];
  T *k = reinterpret_cast<T *>(shared), *v = k + 64 * ROW, *q = v + 64 * ROW, *grad = q + OTHERS * ROW;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u64 group = a.heads / a.kv_heads, batch = blockIdx.y / a.kv_heads, kv_head = blockIdx.y % a.kv_heads;
  u64 block = (u64)blockIdx.x * 64, first = block + warp * 16, mine = first + lane / 4;
  fetch<64>(a, a.k, batch, kv_head, block, k);
  fetch<64>(a, a.v, batch, kv_head, block, v);
  float of_k[HEAD / 8][4] = {}, of_v[HEAD / 8][4] = {};
  for (u64 head = kv_head * group; head < (kv_head + 1) * group; head++) {
    u64 number = batch * a.heads + head;
    const float *log_sums = reinterpret_cast<const float *>(a.log_sums) + number * a.pitch;
    const float *row_sums = reinterpret_cast<const float *>(a.sums) + number * a.length;
    for (u64 begin = a.causal ? block : 0; begin < a.length; begin += OTHERS) {
      __syncthreads();
      fetch<OTHERS>(a, a.q, batch, head, begin, q);
      fetch<OTHERS>(a, a.grad, batch, head, begin, grad);
      arrived();
      float s[OTHERS / 8][4] = {}, g[OTHERS / 8][4] = {};
#pragma unroll
      for (int step = 0; step < STEPS; step++) {
        u32 x[4], y[4];
        left(k + warp * 16 * ROW, step * 16, x);
        left(v + warp * 16 * ROW, step * 16, y);
#pragma unroll
        for (int n = 0; n < OTHERS / 8; n++) {
          by_rows(s[n], x, q + n * 8 * ROW, step * 16);
          by_rows(g[n], y, grad + n * 8 * ROW, step * 16);
        }
      }
#pragma unroll
      for (int n = 0; n < OTHERS / 8; n++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
          u64 row = begin + n * 8 + lane % 4 * 2 + j;
          float log_sum = row < a.length ? log_sums[row] : 0.0f, row_sum = row < a.length ? row_sums[row] : 0.0f;
          differentiate(a, number, row, mine, log_sum, row_sum, s[n][j], g[n][j]);
          differentiate(a, number, row, mine + 8, log_sum, row_sum, s[n][2 + j], g[n][2 + j]);
        }
#pragma unroll
      for (int n = 0; n < OTHERS / 16; n++) {
        u32 x[4];
        repack(s[2 * n], s[2 * n + 1], x);
        by_columns(of_v, x, grad + n * 16 * ROW);
        repack(g[2 * n], g[2 * n + 1], x);
        by_columns(of_k, x, q + n * 16 * ROW);
      }
    }
  }
  store(a, a.dk, batch, kv_head, first, of_k, 1.0f, 1.0f);
  store(a, a.dv, batch, kv_head, first, of_v, 1.0f, 1.0f);
}

// Gradients of 64 queries.
KERNEL __launch_bounds__(128) attention_backward_queries(ATTENTION a) {
  extern __shared__ float4 shared[];
  T *q = reinterpret_cast<T *>(shared), *grad = q + 64 * ROW, *k = grad + 64 * ROW, *v = k + OTHERS * ROW;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u64 batch = blockIdx.y / a.heads, head = blockIdx.y % a.heads, kv_head = head / (a.heads / a.kv_heads);
  u64 block = (u64)(gridDim.x - 1 - blockIdx.x) * 64, first = block + warp * 16, mine = first + lane / 4;
  u64 end = a.causal && block + 64 < a.length ? block + 64 : a.length;
  fetch<64>(a, a.q, batch, head, block, q);
  fetch<64>(a, a.grad, batch, head, block, grad);
  float log_sum[2], row_sum[2];
#pragma unroll
  for (int half = 0; half < 2; half++) {
    u64 row = mine + half * 8;
    bool inside = row < a.length;
    log_sum[half] = inside ? reinterpret_cast<const float *>(a.log_sums)[blockIdx.y * a.pitch + row] : 0.0f;
    row_sum[half] = inside ? reinterpret_cast<const float *>(a.sums)[blockIdx.y * a.length + row] : 0.0f;
  }
  float of_q[HEAD / 8][4] = {};
  for (u64 begin = 0; begin < end; begin += OTHERS) {
    __syncthreads();
    fetch<OTHERS>(a, a.k, batch, kv_head, begin, k);
    fetch<OTHERS>(a, a.v, batch, kv_head, begin, v);
    arrived();
    float s[OTHERS / 8][4] = {}, g[OTHERS / 8][4] = {};
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
      u32 x[4], y[4];
      left(q + warp * 16 * ROW, step * 16, x);
      left(grad + warp * 16 * ROW, step * 16, y);
#pragma unroll
      for (int n = 0; n < OTHERS / 8; n++) {
        by_rows(s[n], x, k + n * 8 * ROW, step * 16);
        by_rows(g[n], y, v + n * 8 * ROW, step * 16);
      }
    }
#pragma unroll
    for (int n = 0; n < OTHERS / 8; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        u64 column = begin + n * 8 + lane % 4 * 2 + i % 2;
        differentiate(a, blockIdx.y, mine + i / 2 * 8, column, log_sum[i / 2], row_sum[i / 2], s[n][i], g[n][i]);
      }
#pragma unroll
    for (int n = 0; n < OTHERS / 16; n++) {
      u32 x[4];
      repack(g[2 * n], g[2 * n + 1], x);
      by_columns(of_q, x, k + n * 16 * ROW);
    }
  }
  store(a, a.dq, batch, head, first, of_q, 1.0f, 1.0f);
}

#endif
