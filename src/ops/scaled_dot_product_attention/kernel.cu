// Attention that keeps no scores, for every type and GPU: a block works on a tile of rows of one head and walks over the tiles of the
// other side. Rows in shared memory are filled up with zeros. Everything is computed in f32.
//
// 128 threads stand as 8 by 16: a thread has RT rows, and of each either CT columns of a tile of scores or every 16th pack of features.

const int STEP = HEAD + 4;                 // from one row to the next in shared memory
const int PACK = HEAD >= 64 ? 4 : 2;       // features that lie together in a thread
const int PACKS = HEAD / (16 * PACK);
const float LOWEST = -3.0e38f;

// Rows `first` to `first + ROWS` of a head into shared memory; zeros beyond its end.
template <int ROWS> __device__ __forceinline__ void load(const Attention &a, const Matrix &m, u64 batch, u64 head, u64 first, float *to) {
  for (int i = threadIdx.x; i < ROWS * HEAD; i += 128) {
    int row = i / HEAD, j = i % HEAD;
    bool inside = first + row < a.length && j < a.features;
    to[row * STEP + j] = inside ? widen(row_of(m, batch, head, first + row)[j]) : 0.0f;
  }
}

// sum[r][c] = rows of `left` times rows of `right`.
template <int RT, int CT> __device__ __forceinline__ void products(const float *left, const float *right, float (&sum)[RT][CT]) {
  int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
#pragma unroll
  for (int r = 0; r < RT; r++)
#pragma unroll
    for (int c = 0; c < CT; c++) sum[r][c] = 0.0f;
#pragma unroll 4
  for (int d = 0; d < HEAD; d += 4) {
    float4 x[RT], y[CT];
#pragma unroll
    for (int r = 0; r < RT; r++) x[r] = *reinterpret_cast<const float4 *>(left + (ty * RT + r) * STEP + d);
#pragma unroll
    for (int c = 0; c < CT; c++) y[c] = *reinterpret_cast<const float4 *>(right + (tx + 16 * c) * STEP + d);
#pragma unroll
    for (int r = 0; r < RT; r++)
#pragma unroll
      for (int c = 0; c < CT; c++)
        sum[r][c] += x[r].x * y[c].x + x[r].y * y[c].y + x[r].z * y[c].z + x[r].w * y[c].w;
  }
}

// sum[r][..] += weights of the thread's rows times the TILE rows of `values`.
template <int TILE, int RT>
__device__ __forceinline__ void accumulate(const float *weights, const float *values, float (&sum)[RT][PACKS * PACK]) {
  int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
#pragma unroll 4
  for (int n = 0; n < TILE; n++) {
    float x[RT];
#pragma unroll
    for (int r = 0; r < RT; r++) x[r] = weights[(ty * RT + r) * (TILE + 4) + n];
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
      const float *v = values + n * STEP + p * 16 * PACK + tx * PACK;
#pragma unroll
      for (int j = 0; j < PACK; j++)
#pragma unroll
        for (int r = 0; r < RT; r++) sum[r][p * PACK + j] += x[r] * v[j];
    }
  }
}

// Writes the thread's rows of a tile, times `scale`.
template <int RT>
__device__ __forceinline__ void store(
    const Attention &a, const Matrix &m, u64 batch, u64 head, u64 first, const float (&sum)[RT][PACKS * PACK], const float (&scale)[RT]) {
  int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
#pragma unroll
  for (int r = 0; r < RT; r++) {
    u64 row = first + ty * RT + r;
    if (row >= a.length) continue;
    T *to = row_of(m, batch, head, row);
#pragma unroll
    for (int p = 0; p < PACKS; p++)
#pragma unroll
      for (int j = 0; j < PACK; j++) {
        int d = p * 16 * PACK + tx * PACK + j;
        if (d < a.features) to[d] = narrow<T>(sum[r][p * PACK + j] * scale[r]);
      }
  }
}

// Over the 16 threads that share a row.
template <class Op> __device__ __forceinline__ float across(float x) {
#pragma unroll
  for (int d = 8; d > 0; d >>= 1) x = Op::join(x, __shfl_xor_sync(0xffffffffu, x, d));
  return x;
}

KERNEL attention_forward(ATTENTION a) {
  const int TILE = HEAD > 128 ? 16 : 32, RT = TILE / 8, CT = TILE / 16;
  extern __shared__ float4 shared[];
  float *q = reinterpret_cast<float *>(shared), *kv = q + TILE * STEP, *weights = kv + TILE * STEP;
  int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
  u64 batch = blockIdx.y / a.heads, head = blockIdx.y % a.heads, kv_head = head / (a.heads / a.kv_heads);
  // The last rows see the most: they begin first.
  u64 first = (u64)(gridDim.x - 1 - blockIdx.x) * TILE;
  load<TILE>(a, a.q, batch, head, first, q);
  float sum[RT][PACKS * PACK] = {}, most[RT], total[RT];
#pragma unroll
  for (int r = 0; r < RT; r++) most[r] = LOWEST, total[r] = 0.0f;
  u64 end = a.causal && first + TILE < a.length ? first + TILE : a.length;
  for (u64 begin = 0; begin < end; begin += TILE) {
    __syncthreads();
    load<TILE>(a, a.k, batch, kv_head, begin, kv);
    __syncthreads();
    float s[RT][CT];
    products<RT, CT>(q, kv, s);
#pragma unroll
    for (int r = 0; r < RT; r++) {
      u64 row = first + ty * RT + r;
      float high = most[r];
#pragma unroll
      for (int c = 0; c < CT; c++) {
        s[r][c] = sees(a, row, begin + tx + 16 * c) ? s[r][c] * (float)a.scale : LOWEST;
        high = fmaxf(high, s[r][c]);
      }
      high = across<Max>(high);
      float shrink = __expf(most[r] - high), part = 0.0f;
      most[r] = high;
#pragma unroll
      for (int c = 0; c < CT; c++) {
        u64 column = begin + tx + 16 * c;
        float w = s[r][c] > LOWEST ? __expf(s[r][c] - high) : 0.0f;
        part += w;
        weights[(ty * RT + r) * (TILE + 4) + tx + 16 * c] = w > 0.0f ? w * noise(a, blockIdx.y, row, column) : 0.0f;
      }
      total[r] = total[r] * shrink + across<Sum>(part);
#pragma unroll
      for (int j = 0; j < PACKS * PACK; j++) sum[r][j] *= shrink;
    }
    __syncthreads();
    load<TILE>(a, a.v, batch, kv_head, begin, kv);
    __syncthreads();
    accumulate<TILE, RT>(weights, kv, sum);
  }
  float scale[RT];
#pragma unroll
  for (int r = 0; r < RT; r++) {
    scale[r] = 1.0f / total[r];
    u64 row = first + ty * RT + r;
    if (a.log_sums && tx == 0 && row < a.length)
      reinterpret_cast<float *>(a.log_sums)[blockIdx.y * a.pitch + row] = most[r] + logf(total[r]);
  }
  store<RT>(a, a.out, batch, head, first, sum, scale);
}

// Backward's four tiles of such heads are more than some GPUs have room for: the two of the other side share one place, and one of them
// comes twice.
const bool SHARES = HEAD > 128;

// Weights of a tile, and the gradients of its scores; both with rows as `left` has them. `flip`: the rows are keys.
template <int RT, int CT, bool flip>
__device__ __forceinline__ void scores(
    const Attention &a, u64 head, u64 first, u64 begin, float (&s)[RT][CT], float (&g)[RT][CT], float (&dropped)[RT][CT]) {
  int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
  const float *log_sums = reinterpret_cast<const float *>(a.log_sums) + head * a.pitch;
  const float *sums = reinterpret_cast<const float *>(a.sums) + head * a.length;
#pragma unroll
  for (int r = 0; r < RT; r++)
#pragma unroll
    for (int c = 0; c < CT; c++) {
      u64 across = begin + tx + 16 * c, down = first + ty * RT + r;
      u64 row = flip ? across : down, column = flip ? down : across;
      bool seen = sees(a, row, column);
      float w = seen ? __expf(s[r][c] * (float)a.scale - log_sums[row]) : 0.0f;
      float n = seen ? noise(a, head, row, column) : 0.0f;
      dropped[r][c] = w * n;
      g[r][c] = seen ? w * (g[r][c] * n - sums[row]) * (float)a.scale : 0.0f;
    }
}

template <int TILE, int RT, int CT> __device__ __forceinline__ void put(float *to, const float (&x)[RT][CT]) {
  int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
#pragma unroll
  for (int r = 0; r < RT; r++)
#pragma unroll
    for (int c = 0; c < CT; c++) to[(ty * RT + r) * (TILE + 4) + tx + 16 * c] = x[r][c];
}

// Gradients of a tile of keys and values: over all queries of the heads that share them.
KERNEL attention_backward_keys(ATTENTION a) {
  const int TILE = HEAD > 64 ? 16 : 32, RT = TILE / 8, CT = TILE / 16;
  extern __shared__ float4 shared[];
  float *k = reinterpret_cast<float *>(shared), *v = k + TILE * STEP, *q = v + TILE * STEP, *grad = SHARES ? q : q + TILE * STEP;
  float *weights = grad + TILE * STEP, *of_scores = weights + TILE * (TILE + 4);
  u64 group = a.heads / a.kv_heads, batch = blockIdx.y / a.kv_heads, kv_head = blockIdx.y % a.kv_heads;
  u64 first = (u64)blockIdx.x * TILE;
  load<TILE>(a, a.k, batch, kv_head, first, k);
  load<TILE>(a, a.v, batch, kv_head, first, v);
  float of_k[RT][PACKS * PACK] = {}, of_v[RT][PACKS * PACK] = {};
  for (u64 head = kv_head * group; head < (kv_head + 1) * group; head++) {
    for (u64 begin = a.causal ? first / TILE * TILE : 0; begin < a.length; begin += TILE) {
      __syncthreads();
      load<TILE>(a, a.q, batch, head, begin, q);
      if (!SHARES) load<TILE>(a, a.grad, batch, head, begin, grad);
      __syncthreads();
      float s[RT][CT], g[RT][CT], dropped[RT][CT];
      products<RT, CT>(k, q, s);
      if (SHARES) {
        __syncthreads();
        load<TILE>(a, a.grad, batch, head, begin, grad);
        __syncthreads();
      }
      products<RT, CT>(v, grad, g);
      scores<RT, CT, true>(a, batch * a.heads + head, first, begin, s, g, dropped);
      put<TILE>(weights, dropped);
      put<TILE>(of_scores, g);
      __syncthreads();
      accumulate<TILE, RT>(weights, grad, of_v);
      if (SHARES) {
        __syncthreads();
        load<TILE>(a, a.q, batch, head, begin, q);
        __syncthreads();
      }
      accumulate<TILE, RT>(of_scores, q, of_k);
    }
  }
  float one[RT];
#pragma unroll
  for (int r = 0; r < RT; r++) one[r] = 1.0f;
  store<RT>(a, a.dk, batch, kv_head, first, of_k, one);
  store<RT>(a, a.dv, batch, kv_head, first, of_v, one);
}

// Gradients of a tile of queries.
KERNEL attention_backward_queries(ATTENTION a) {
  const int TILE = HEAD > 64 ? 16 : 32, RT = TILE / 8, CT = TILE / 16;
  extern __shared__ float4 shared[];
  float *q = reinterpret_cast<float *>(shared), *grad = q + TILE * STEP, *k = grad + TILE * STEP, *v = SHARES ? k : k + TILE * STEP;
  float *of_scores = v + TILE * STEP;
  u64 batch = blockIdx.y / a.heads, head = blockIdx.y % a.heads, kv_head = head / (a.heads / a.kv_heads);
  u64 first = (u64)(gridDim.x - 1 - blockIdx.x) * TILE;
  load<TILE>(a, a.q, batch, head, first, q);
  load<TILE>(a, a.grad, batch, head, first, grad);
  float of_q[RT][PACKS * PACK] = {};
  u64 end = a.causal && first + TILE < a.length ? first + TILE : a.length;
  for (u64 begin = 0; begin < end; begin += TILE) {
    __syncthreads();
    load<TILE>(a, a.k, batch, kv_head, begin, k);
    if (!SHARES) load<TILE>(a, a.v, batch, kv_head, begin, v);
    __syncthreads();
    float s[RT][CT], g[RT][CT], dropped[RT][CT];
    products<RT, CT>(q, k, s);
    if (SHARES) {
      __syncthreads();
      load<TILE>(a, a.v, batch, kv_head, begin, v);
      __syncthreads();
    }
    products<RT, CT>(grad, v, g);
    scores<RT, CT, false>(a, blockIdx.y, first, begin, s, g, dropped);
    put<TILE>(of_scores, g);
    __syncthreads();
    if (SHARES) {
      load<TILE>(a, a.k, batch, kv_head, begin, k);
      __syncthreads();
    }
    accumulate<TILE, RT>(of_scores, k, of_q);
  }
  float one[RT];
#pragma unroll
  for (int r = 0; r < RT; r++) one[r] = 1.0f;
  store<RT>(a, a.dq, batch, head, first, of_q, one);
}
