// Attention that keeps no scores, on tensor cores, from compute capability 8.0 on. A block's four warps have 16 rows each and walk together
// over tiles of the other side, which are copied to shared memory while they compute.
//
// Halves are multiplied as they are (`mma.m16n8k16`) and added up in f32. An f32 is split into a TF32 and what that leaves, also one; three of
// the four products of two such numbers count (`mma.m16n8k8`), which is as exact as f32's own.
//
// Of a 16 by 8 tile of results a lane has two neighbours in the rows lane / 4 and lane / 4 + 8: elements 0, 1 and 2, 3.

const int PIECE = 16 / sizeof(T);    // elements that are copied at once
const int ROW = HEAD + PIECE;        // from one row to the next in shared memory: no two rows of a tile begin in the same bank
const int COLUMNS = HEAD * sizeof(T) > 256 ? 32 : 64;   // keys in a tile of forward
const float LOWEST = -3.0e38f, LOG2E = 1.4426950408889634f, LN2 = 0.6931471805599453f;

// 2 to the power of x, and 0 for what is far below.
__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ u32 shared_address(const void *p) {
  u32 x;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(x) : "l"(p));
  return x;
}

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

__device__ __forceinline__ void load_tiles(const void *p, u32 (&x)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(shared_address(p)));
}
__device__ __forceinline__ void load_transposed_tiles(const void *p, u32 (&x)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(shared_address(p)));
}

// Products of a warp's 16 rows with tiles in shared memory.
template <class X> struct Products {
  // c += the 16 rows from `left` on times the transpose of the N * 8 rows from `right` on, over all features.
  template <int N> static __device__ __forceinline__ void by_rows(float (&c)[N][4], const X *left, const X *right) {
    int lane = threadIdx.x % 32;
    left += lane % 16 * ROW + lane / 16 * 8, right += lane % 8 * ROW + lane / 8 * 8;
#pragma unroll
    for (int d = 0; d < HEAD; d += 32) {
      u32 x[2][4];
      load_tiles(left + d, x[0]);
      load_tiles(left + d + 16, x[1]);
#pragma unroll
      for (int n = 0; n < N; n++) {
        u32 y[4];
        load_tiles(right + n * 8 * ROW + d, y);
        Half<X>::mma(c[n], x[0], y[0], y[1]);
        Half<X>::mma(c[n], x[1], y[2], y[3]);
      }
    }
  }
  // sum += s times the N * 8 rows from `tile` on: the rows are what is summed over.
  template <int N> static __device__ __forceinline__ void by_columns(float (&sum)[HEAD / 8][4], const float (&s)[N][4], const X *tile) {
    int lane = threadIdx.x % 32;
    tile += lane % 16 * ROW + lane / 16 * 8;
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      u32 x[4] = {Half<X>::pack(s[n][0], s[n][1]), Half<X>::pack(s[n][2], s[n][3]), Half<X>::pack(s[n + 1][0], s[n + 1][1]),
                  Half<X>::pack(s[n + 1][2], s[n + 1][3])};
#pragma unroll
      for (int d = 0; d < HEAD; d += 16) {
        u32 y[4];
        load_transposed_tiles(tile + n * 8 * ROW + d, y);
        Half<X>::mma(sum[d / 8], x, y[0], y[1]);
        Half<X>::mma(sum[d / 8 + 1], x, y[2], y[3]);
      }
    }
  }
  static __device__ __forceinline__ void put(X *to, float low, float high) { *reinterpret_cast<u32 *>(to) = Half<X>::pack(low, high); }
};

template <> struct Products<f32> {
  // A number as the sum of two that have a TF32's digits.
  static __device__ __forceinline__ void split(float x, u32 &most, u32 &rest) {
    most = __float_as_uint(x) & 0xffffe000u;
    rest = __float_as_uint(x - __uint_as_float(most));
  }
  static __device__ __forceinline__ void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  struct Left {
    u32 most[4], rest[4];
    __device__ __forceinline__ Left(float a0, float a1, float a2, float a3) {
      split(a0, most[0], rest[0]), split(a1, most[1], rest[1]), split(a2, most[2], rest[2]), split(a3, most[3], rest[3]);
    }
    __device__ __forceinline__ void times(float (&c)[4], float b0, float b1) const {
      u32 most0, rest0, most1, rest1;
      split(b0, most0, rest0), split(b1, most1, rest1);
      mma(c, rest, most0, most1);
      mma(c, most, rest0, rest1);
      mma(c, most, most0, most1);
    }
  };
  template <int N> static __device__ __forceinline__ void by_rows(float (&c)[N][4], const float *left, const float *right) {
    int lane = threadIdx.x % 32, place = lane / 4 * ROW + lane % 4;
    left += place, right += place;
#pragma unroll 4
    for (int d = 0; d < HEAD; d += 8) {
      Left x(left[d], left[8 * ROW + d], left[d + 4], left[8 * ROW + d + 4]);
#pragma unroll
      for (int n = 0; n < N; n++) x.times(c[n], right[n * 8 * ROW + d], right[n * 8 * ROW + d + 4]);
    }
  }
  // A sum has no order: a lane's two neighbours stand for the fourth of a row and the fourth after it that it should have of a left side.
  template <int N> static __device__ __forceinline__ void by_columns(float (&sum)[HEAD / 8][4], const float (&s)[N][4], const float *tile) {
    int lane = threadIdx.x % 32;
    tile += lane % 4 * 2 * ROW + lane / 4;
#pragma unroll
    for (int n = 0; n < N; n++) {
      Left x(s[n][0], s[n][2], s[n][1], s[n][3]);
#pragma unroll
      for (int m = 0; m < HEAD / 8; m++) x.times(sum[m], tile[n * 8 * ROW + m * 8], tile[(n * 8 + 1) * ROW + m * 8]);
    }
  }
  static __device__ __forceinline__ void put(float *to, float low, float high) { *reinterpret_cast<float2 *>(to) = make_float2(low, high); }
};
typedef Products<T> P;

// Rows `first` to `first + ROWS` of a head on their way into shared memory; zeros beyond its end. Heads are whole pieces, of which a thread
// copies the same of several rows.
template <int ROWS> __device__ __forceinline__ void fetch(const Attention &a, const Matrix &m, u32 batch, u32 head, u32 first, T *to) {
  const int PIECES = HEAD / PIECE, APART = 128 / PIECES;
  int row = threadIdx.x / PIECES, d = threadIdx.x % PIECES * PIECE;
  int rows = d < a.features ? (int)a.length - (int)first - row : 0;
  const T *from = row_of(m, batch, head, first + row) + d, *anywhere = reinterpret_cast<const T *>(m.address);
  u32 at = shared_address(to + row * ROW + d);
#pragma unroll
  for (int n = 0; n < ROWS / APART; n++) {
    bool inside = n * APART < rows;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at + n * APART * ROW * (u32)sizeof(T)),
                 "l"(inside ? from + n * APART * m.row : anywhere), "r"(inside ? 16 : 0)
                 : "memory");
  }
}

__device__ __forceinline__ void arrived() {
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
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
      if (d < a.features) P::put(to + d, sum[n][2 * half] * scale, sum[n][2 * half + 1] * scale);
    }
  }
}

// Over the four lanes that share a row.
template <class Op> __device__ __forceinline__ float across(float x) {
  x = Op::join(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return Op::join(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

// How many columns a row sees.
__device__ __forceinline__ int seen_by(const Attention &a, u64 row) { return a.causal && row < a.length ? (int)row + 1 : (int)a.length; }

KERNEL __launch_bounds__(128) attention_forward(ATTENTION a) {
  extern __shared__ float4 shared[];
  T *q = reinterpret_cast<T *>(shared), *k = q + 64 * ROW, *v = k + COLUMNS * ROW;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u32 heads = (u32)a.heads, batch = blockIdx.y / heads, head = blockIdx.y % heads, kv_head = head / (heads / (u32)a.kv_heads);
  // The last rows see the most: they begin first.
  u64 block = (u64)(gridDim.x - 1 - blockIdx.x) * 64, first = block + warp * 16, mine = first + lane / 4;
  int end = a.causal && block + 64 < a.length ? (int)block + 64 : (int)a.length;
  int sight[2] = {seen_by(a, mine), seen_by(a, mine + 8)};
  fetch<64>(a, a.q, batch, head, block, q);
  fetch<COLUMNS>(a, a.k, batch, kv_head, 0, k);
  float sum[HEAD / 8][4] = {}, most[2] = {LOWEST, LOWEST}, total[2] = {0.0f, 0.0f}, scale = (float)a.scale * LOG2E;
  for (int begin = 0; begin < end; begin += COLUMNS) {
    arrived();
    fetch<COLUMNS>(a, a.v, batch, kv_head, begin, v);
    float s[COLUMNS / 8][4] = {};
    P::by_rows(s, q + warp * 16 * ROW, k);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int left = sight[half] - begin - lane % 4 * 2;
      float high = most[half], part = 0.0f;
#pragma unroll
      for (int n = 0; n < COLUMNS / 8; n++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
          float &x = s[n][2 * half + j];
          x = n * 8 + j < left ? x * scale : LOWEST;
          high = fmaxf(high, x);
        }
      high = across<Max>(high);
      float shrink = power_of_two(most[half] - high);
      most[half] = high;
#pragma unroll
      for (int n = 0; n < COLUMNS / 8; n++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
          float &x = s[n][2 * half + j];
          // Every row sees the first column: what is lowest vanishes beside what the row has seen.
          x = power_of_two(x - high);
          part += x;
          x *= noise(a, blockIdx.y, mine + half * 8, begin + n * 8 + lane % 4 * 2 + j);
        }
      total[half] = total[half] * shrink + part;
#pragma unroll
      for (int n = 0; n < HEAD / 8; n++) sum[n][2 * half] *= shrink, sum[n][2 * half + 1] *= shrink;
    }
    arrived();
    if (begin + COLUMNS < end) fetch<COLUMNS>(a, a.k, batch, kv_head, begin + COLUMNS, k);
    P::by_columns(sum, s, v);
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

const int OTHERS = 32;   // rows of the other side in a tile of backward; one tile is computed with while the next arrives

// From a score and a product with the incoming gradient: the weight as it was dropped, and the gradient of the score.
__device__ __forceinline__ void differentiate(const Attention &a, bool seen, float noise, float log_sum, float row_sum, float &s, float &g) {
  float w = seen ? power_of_two(s * ((float)a.scale * LOG2E) - log_sum) : 0.0f;
  s = w * noise;
  g = w * (g * noise - row_sum) * (float)a.scale;
}

// Gradients of 64 keys and values: over all queries of the heads that share them.
KERNEL __launch_bounds__(128) attention_backward_keys(ATTENTION a) {
  extern __shared__ float4 shared[];
  T *k = reinterpret_cast<T *>(shared), *v = k + 64 * ROW, *q = v + 64 * ROW, *grad = q + 2 * OTHERS * ROW;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u32 kv_heads = (u32)a.kv_heads, group = (u32)a.heads / kv_heads, batch = blockIdx.y / kv_heads, kv_head = blockIdx.y % kv_heads;
  u64 block = (u64)blockIdx.x * 64, first = block + warp * 16;
  int mine = (int)first + lane / 4, length = (int)a.length, from = a.causal ? (int)block : 0;
  u32 tiles = (length - from + OTHERS - 1) / OTHERS, count = group * tiles;
  auto fetch_tile = [&](u32 tile) {
    u32 head = kv_head * group + tile / tiles, begin = from + tile % tiles * OTHERS;
    fetch<OTHERS>(a, a.q, batch, head, begin, q + tile % 2 * OTHERS * ROW);
    fetch<OTHERS>(a, a.grad, batch, head, begin, grad + tile % 2 * OTHERS * ROW);
  };
  fetch<64>(a, a.k, batch, kv_head, block, k);
  fetch<64>(a, a.v, batch, kv_head, block, v);
  fetch_tile(0);
  float of_k[HEAD / 8][4] = {}, of_v[HEAD / 8][4] = {};
  for (u32 tile = 0; tile < count; tile++) {
    arrived();
    if (tile + 1 < count) fetch_tile(tile + 1);
    u64 number = batch * a.heads + kv_head * group + tile / tiles;
    int begin = from + tile % tiles * OTHERS + lane % 4 * 2;
    const float *log_sums = reinterpret_cast<const float *>(a.log_sums) + number * a.pitch;
    const float *row_sums = reinterpret_cast<const float *>(a.sums) + number * a.length;
    // Rows beyond the end are zeros, and so is what comes of them.
    float log_sum[OTHERS / 8][2], row_sum[OTHERS / 8][2];
#pragma unroll
    for (int n = 0; n < OTHERS / 8; n++)
#pragma unroll
      for (int j = 0; j < 2; j++) {
        int row = begin + n * 8 + j;
        log_sum[n][j] = row < length ? log_sums[row] * LOG2E : 0.0f;
        row_sum[n][j] = row < length ? row_sums[row] : 0.0f;
      }
    const T *rows = q + tile % 2 * OTHERS * ROW, *grads = grad + tile % 2 * OTHERS * ROW;
    float s[OTHERS / 8][4] = {}, g[OTHERS / 8][4] = {};
    P::by_rows(s, k + warp * 16 * ROW, rows);
    P::by_rows(g, v + warp * 16 * ROW, grads);
#pragma unroll
    for (int n = 0; n < OTHERS / 8; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        int row = begin + n * 8 + i % 2, key = mine + i / 2 * 8;
        bool seen = !a.causal || key <= row;
        differentiate(a, seen, noise(a, number, row, key), log_sum[n][i % 2], row_sum[n][i % 2], s[n][i], g[n][i]);
      }
    P::by_columns(of_v, s, grads);
    P::by_columns(of_k, g, rows);
  }
  store(a, a.dk, batch, kv_head, first, of_k, 1.0f, 1.0f);
  store(a, a.dv, batch, kv_head, first, of_v, 1.0f, 1.0f);
}

// Gradients of 64 queries.
KERNEL __launch_bounds__(128) attention_backward_queries(ATTENTION a) {
  extern __shared__ float4 shared[];
  T *q = reinterpret_cast<T *>(shared), *grad = q + 64 * ROW, *k = grad + 64 * ROW, *v = k + 2 * OTHERS * ROW;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u32 heads = (u32)a.heads, batch = blockIdx.y / heads, head = blockIdx.y % heads, kv_head = head / (heads / (u32)a.kv_heads);
  u64 block = (u64)(gridDim.x - 1 - blockIdx.x) * 64, first = block + warp * 16, mine = first + lane / 4;
  u32 end = a.causal && block + 64 < a.length ? (u32)block + 64 : (u32)a.length, count = (end + OTHERS - 1) / OTHERS;
  auto fetch_tile = [&](u32 tile) {
    fetch<OTHERS>(a, a.k, batch, kv_head, tile * OTHERS, k + tile % 2 * OTHERS * ROW);
    fetch<OTHERS>(a, a.v, batch, kv_head, tile * OTHERS, v + tile % 2 * OTHERS * ROW);
  };
  fetch<64>(a, a.q, batch, head, block, q);
  fetch<64>(a, a.grad, batch, head, block, grad);
  fetch_tile(0);
  float log_sum[2], row_sum[2];
  int sight[2];
#pragma unroll
  for (int half = 0; half < 2; half++) {
    u64 row = mine + half * 8;
    bool inside = row < a.length;
    log_sum[half] = inside ? reinterpret_cast<const float *>(a.log_sums)[blockIdx.y * a.pitch + row] * LOG2E : 0.0f;
    row_sum[half] = inside ? reinterpret_cast<const float *>(a.sums)[blockIdx.y * a.length + row] : 0.0f;
    sight[half] = seen_by(a, row);
  }
  float of_q[HEAD / 8][4] = {};
  for (u32 tile = 0; tile < count; tile++) {
    arrived();
    if (tile + 1 < count) fetch_tile(tile + 1);
    const T *keys = k + tile % 2 * OTHERS * ROW, *values = v + tile % 2 * OTHERS * ROW;
    float s[OTHERS / 8][4] = {}, g[OTHERS / 8][4] = {};
    P::by_rows(s, q + warp * 16 * ROW, keys);
    P::by_rows(g, grad + warp * 16 * ROW, values);
    int begin = tile * OTHERS + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < OTHERS / 8; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        int column = begin + n * 8 + i % 2, half = i / 2;
        float kept = noise(a, blockIdx.y, mine + half * 8, column);
        differentiate(a, column < sight[half], kept, log_sum[half], row_sum[half], s[n][i], g[n][i]);
      }
    P::by_columns(of_q, g, keys);
  }
  store(a, a.dq, batch, head, first, of_q, 1.0f, 1.0f);
}

#endif
