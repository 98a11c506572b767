// What every kernel source of this program begins with: element types, 16-byte packs, grid-stride maps, block reductions.
//
// A source is compiled for up to three element types, T, U and V, defined between this and the source itself. No header of the CUDA
// toolkit is included, so that a machine needs NVRTC's library alone. Arithmetic on f16 and bf16 is done in f32, as PyTorch does.

#define KERNEL extern "C" __global__ void
#define VIEW const __grid_constant__ View

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

typedef double f64;
typedef float f32;
struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };

// ---- element types: the type arithmetic is done in, and conversions -------------------------------------------------------

template <class T> struct Math { typedef T type; };
template <> struct Math<f16> { typedef float type; };
template <> struct Math<bf16> { typedef float type; };
template <class T> using math_t = typename Math<T>::type;

__device__ __forceinline__ float widen(f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
__device__ __forceinline__ float widen(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ double widen(double x) { return x; }

template <class T> struct Narrow;
template <> struct Narrow<double> {
  static __device__ __forceinline__ double from(double x) { return x; }
};
template <> struct Narrow<float> {
  static __device__ __forceinline__ float from(float x) { return x; }
  static __device__ __forceinline__ float from(double x) { return (float)x; }
};
template <> struct Narrow<f16> {
  static __device__ __forceinline__ f16 from(float x) {
    f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
  }
  static __device__ __forceinline__ f16 from(double x) { return from((float)x); }
};
template <> struct Narrow<bf16> {
  static __device__ __forceinline__ bf16 from(float x) {
    bf16 y;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else
    u32 bits = __float_as_uint(x);
    y.bits = x != x ? 0x7fff : (unsigned short)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
#endif
    return y;
  }
  static __device__ __forceinline__ bf16 from(double x) { return from((float)x); }
};
template <class T, class A> __device__ __forceinline__ T narrow(A x) { return Narrow<T>::from(x); }

// The library functions that f32 and f64 name apart.
__device__ __forceinline__ float exp_(float x) { return expf(x); }
__device__ __forceinline__ double exp_(double x) { return exp(x); }
__device__ __forceinline__ float log_(float x) { return logf(x); }
__device__ __forceinline__ double log_(double x) { return log(x); }
__device__ __forceinline__ float log1p_(float x) { return log1pf(x); }
__device__ __forceinline__ double log1p_(double x) { return log1p(x); }
__device__ __forceinline__ float tanh_(float x) { return tanhf(x); }
__device__ __forceinline__ double tanh_(double x) { return tanh(x); }
__device__ __forceinline__ float erf_(float x) { return erff(x); }
__device__ __forceinline__ double erf_(double x) { return erf(x); }
__device__ __forceinline__ float sqrt_(float x) { return sqrtf(x); }
__device__ __forceinline__ double sqrt_(double x) { return sqrt(x); }
__device__ __forceinline__ float rsqrt_(float x) { return rsqrtf(x); }
__device__ __forceinline__ double rsqrt_(double x) { return rsqrt(x); }
__device__ __forceinline__ float abs_(float x) { return fabsf(x); }
__device__ __forceinline__ double abs_(double x) { return fabs(x); }
__device__ __forceinline__ float max_(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ double max_(double a, double b) { return fmax(a, b); }
__device__ __forceinline__ float min_(float a, float b) { return fminf(a, b); }
__device__ __forceinline__ double min_(double a, double b) { return fmin(a, b); }

// ---- packs: what one thread loads and stores at once ----------------------------------------------------------------------

template <class T> struct Width { static const int value = 16 / sizeof(T); };

template <class T, int N> struct Pack {
  static const int bytes = sizeof(T) * N;
  struct alignas(bytes < 16 ? bytes : 16) Data { T v[N]; } data;
  __device__ __forceinline__ void load(const T *p) { data = *reinterpret_cast<const Data *>(p); }
  __device__ __forceinline__ void store(T *p) const { *reinterpret_cast<Data *>(p) = data; }
  __device__ __forceinline__ T &operator[](int i) { return data.v[i]; }
};

template <class T, int N> __device__ __forceinline__ bool aligned(const T *p) {
  const int bytes = sizeof(T) * N;
  return (reinterpret_cast<u64>(p) & ((bytes < 16 ? bytes : 16) - 1)) == 0;
}

// A tensor of any layout as the sequence of its elements in row-major order. With rank 0, element i is i steps of `step` away (a step of 0:
// one element stands for all, as in an expanded gradient); else its position is taken apart by the sizes, innermost first.
struct View {
  u64 address, step, rank;
  u64 size[6], stride[6];
};

__device__ __noinline__ u64 strided_offset(const View &view, u64 i) {
  u64 offset = 0;
#pragma unroll 1
  for (u64 d = 0; d + 1 < view.rank; d++) {
    u64 size = view.size[d];
    u64 outer = (i | size) >> 32 ? i / size : (u32)i / (u32)size;
    offset += (i - outer * size) * view.stride[d];
    i = outer;
  }
  return offset + i * view.stride[view.rank - 1];
}

__device__ __forceinline__ u64 offset(const View &view, u64 i) { return view.rank == 0 ? i * view.step : strided_offset(view, i); }

// Whether the elements of a view of some rank lie in stretches of N, one after another and aligned, or each stretch is one element.
template <class T, int N> __device__ __noinline__ bool stretches(const View &view, const T *p) {
  if (view.size[0] % N != 0 || view.stride[0] > 1) return false;
  bool together = view.stride[0] == 0 || aligned<T, N>(p);
  for (u64 d = 1; d < view.rank; d++) together = together && (view.stride[0] == 0 || view.stride[d] % N == 0);
  return together;
}

// A tensor that is read.
template <class T> struct In {
  const T *p;
  const View &view;
  __device__ __forceinline__ explicit In(const View &view) : p(reinterpret_cast<const T *>(view.address)), view(view) {}
  template <int N> __device__ __forceinline__ bool packs() const {
    return view.rank == 0 ? view.step == 0 || (view.step == 1 && aligned<T, N>(p)) : stretches<T, N>(view, p);
  }
  // The N elements at an offset, where it packs.
  template <int N> __device__ __forceinline__ void load(Pack<T, N> &pack, u64 offset) const {
    const T *from = p + offset;
    if (view.rank == 0 ? view.step : view.stride[0]) pack.load(from);
    else {
      T one = *from;
#pragma unroll
      for (int j = 0; j < N; j++) pack[j] = one;
    }
  }
  // n elements from i on, of any layout: all that a pack holds, or one.
  template <int N> __device__ __forceinline__ void gather(Pack<T, N> &pack, u64 i, int n) const {
    if (n == N && view.rank == 0 && view.step == 1 && aligned<T, N>(p + i)) pack.load(p + i);
    else {
#pragma unroll
      for (int j = 0; j < N; j++)
        if (j < n) pack[j] = at(i + j);
    }
  }
  __device__ __forceinline__ u64 place(u64 i) const { return offset(view, i); }
  __device__ __forceinline__ T at(u64 i) const { return p[place(i)]; }
};

// A tensor that is written.
template <class T> struct Out {
  T *p;
  const View &view;
  __device__ __forceinline__ explicit Out(const View &view) : p(reinterpret_cast<T *>(view.address)), view(view) {}
  template <int N> __device__ __forceinline__ bool packs() const {
    return view.rank == 0 ? view.step == 1 && aligned<T, N>(p) : view.stride[0] == 1 && stretches<T, N>(view, p);
  }
  __device__ __forceinline__ u64 place(u64 i) const { return offset(view, i); }
  __device__ __forceinline__ T &at(u64 i) const { return p[offset(view, i)]; }
};

// n elements, all that a pack holds or one, from or to an address that may not be aligned.
template <class T, int N> __device__ __forceinline__ void gather(Pack<T, N> &pack, const T *p, int n) {
  if (n == N && aligned<T, N>(p)) pack.load(p);
  else {
#pragma unroll
    for (int j = 0; j < N; j++)
      if (j < n) pack[j] = p[j];
  }
}
template <class T, int N> __device__ __forceinline__ void scatter(const Pack<T, N> &pack, T *p, int n) {
  if (n == N && aligned<T, N>(p)) pack.store(p);
  else {
#pragma unroll
    for (int j = 0; j < N; j++)
      if (j < n) p[j] = pack.data.v[j];
  }
}

__device__ __forceinline__ u64 thread_index() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 thread_count() { return (u64)gridDim.x * blockDim.x; }

// out[i] = f(a[i]), in packs where the addresses allow it. Places are worked out before anything is loaded: that takes registers.
template <class O, class A, class F> __device__ __forceinline__ void map1(u64 n, Out<O> out, In<A> a, F f) {
  const int N = Width<A>::value < Width<O>::value ? Width<A>::value : Width<O>::value;
  u64 packed = out.template packs<N>() && a.template packs<N>() ? n / N : 0;
  for (u64 i = thread_index(); i < packed; i += thread_count()) {
    u64 of_a = a.place(i * N), of_out = out.place(i * N);
    Pack<A, N> x;
    Pack<O, N> y;
    a.load(x, of_a);
#pragma unroll
    for (int j = 0; j < N; j++) y[j] = f(x[j]);
    y.store(out.p + of_out);
  }
  for (u64 i = packed * N + thread_index(); i < n; i += thread_count()) out.at(i) = f(a.at(i));
}

// out[i] = f(a[i], b[i]).
template <class O, class A, class B, class F> __device__ __forceinline__ void map2(u64 n, Out<O> out, In<A> a, In<B> b, F f) {
  const int N = Width<A>::value < Width<O>::value ? Width<A>::value : Width<O>::value;
  u64 packed = out.template packs<N>() && a.template packs<N>() && b.template packs<N>() ? n / N : 0;
  for (u64 i = thread_index(); i < packed; i += thread_count()) {
    u64 of_a = a.place(i * N), of_b = b.place(i * N), of_out = out.place(i * N);
    Pack<A, N> x;
    Pack<B, N> y;
    Pack<O, N> z;
    a.load(x, of_a);
    b.load(y, of_b);
#pragma unroll
    for (int j = 0; j < N; j++) z[j] = f(x[j], y[j]);
    z.store(out.p + of_out);
  }
  for (u64 i = packed * N + thread_index(); i < n; i += thread_count()) out.at(i) = f(a.at(i), b.at(i));
}

// out[i] = f(a[i], b[i], c[i]).
template <class O, class A, class B, class C, class F>
__device__ __forceinline__ void map3(u64 n, Out<O> out, In<A> a, In<B> b, In<C> c, F f) {
  const int N = Width<A>::value < Width<O>::value ? Width<A>::value : Width<O>::value;
  u64 packed = out.template packs<N>() && a.template packs<N>() && b.template packs<N>() && c.template packs<N>() ? n / N : 0;
  for (u64 i = thread_index(); i < packed; i += thread_count()) {
    u64 of_a = a.place(i * N), of_b = b.place(i * N), of_c = c.place(i * N), of_out = out.place(i * N);
    Pack<A, N> x;
    Pack<B, N> y;
    Pack<C, N> z;
    Pack<O, N> w;
    a.load(x, of_a);
    b.load(y, of_b);
    c.load(z, of_c);
#pragma unroll
    for (int j = 0; j < N; j++) w[j] = f(x[j], y[j], z[j]);
    w.store(out.p + of_out);
  }
  for (u64 i = packed * N + thread_index(); i < n; i += thread_count()) out.at(i) = f(a.at(i), b.at(i), c.at(i));
}

// ---- reductions within a block: every thread gets the result; the order is fixed ------------------------------------------

struct Sum {
  template <class A> static __device__ __forceinline__ A zero() { return A(0); }
  template <class A> static __device__ __forceinline__ A join(A a, A b) { return a + b; }
};
struct Max {
  template <class A> static __device__ __forceinline__ A zero() { return A(-__int_as_float(0x7f800000)); }
  template <class A> static __device__ __forceinline__ A join(A a, A b) { return max_(a, b); }
};

template <class Op, class A> __device__ __forceinline__ A warp_reduce(A x) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) x = Op::join(x, __shfl_xor_sync(0xffffffffu, x, d));
  return x;
}

// Over all threads of a block of at most 1024 in one dimension, a multiple of 32.
template <class Op, class A> __device__ __forceinline__ A block_reduce(A x) {
  __shared__ A partial[32];
  x = warp_reduce<Op>(x);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = x;
  __syncthreads();
  x = (threadIdx.x & 31) < (blockDim.x >> 5) ? partial[threadIdx.x & 31] : Op::template zero<A>();
  return warp_reduce<Op>(x);
}

// ---- rows: a warp each, or a block each where they are long ---------------------------------------------------------------

// `wide` says that the block works on one row; else each of its warps has one of its own, and leaves where there is none for it.
struct Row {
  u64 index;
  u32 lane, width;
  bool wide;
  __device__ __forceinline__ explicit Row(u32 wide)
      : index(wide ? (u64)blockIdx.x : (u64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5)), lane(wide ? threadIdx.x : threadIdx.x & 31),
        width(wide ? blockDim.x : 32), wide(wide != 0) {}
  template <class Op, class A> __device__ __forceinline__ A reduce(A x) const { return wide ? block_reduce<Op>(x) : warp_reduce<Op>(x); }
};

// Calls f(j, pack, n) for all elements of a row of x that begins with element `begin`: the pack's first n are the row's from j on. Packs are
// full from the first aligned element on, where the row's elements lie one after another; elsewhere they have one element.
template <class T, class F> __device__ __forceinline__ void walk(const Row &row, const In<T> &x, u64 begin, u64 columns, F f) {
  const int N = Width<T>::value;
  u64 head = columns, end = columns;
  if (x.view.rank == 0 && x.view.step == 1) {
    head = min(columns, (u64)((16 - reinterpret_cast<u64>(x.p + begin) % 16) % 16 / sizeof(T)));
    end = head + (columns - head) / N * N;
  }
  const int AT_ONCE = 4;
  u64 step = (u64)row.width * N, i = head + (u64)row.lane * N;
  for (; i + (AT_ONCE - 1) * step < end; i += AT_ONCE * step) {
    Pack<T, N> packs[AT_ONCE];
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) packs[u].load(x.p + begin + i + u * step);
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) f(i + u * step, packs[u], N);
  }
  Pack<T, N> pack;
  for (; i < end; i += step) {
    pack.load(x.p + begin + i);
    f(i, pack, N);
  }
  for (u64 j = row.lane; j < columns; j += row.width) {
    if (j >= head && j < end) {
      j += (end - 1 - j) / row.width * row.width;
      continue;
    }
    pack[0] = x.at(begin + j);
    f(j, pack, 1);
  }
}
// For each element that a walk's pack has: a constant number of turns, so that packs stay in registers.
#define EACH(k, N, n) _Pragma("unroll") for (int k = 0; k < N; k++) if (k < n)

// ---- random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) --------------------

struct Four { u32 x[4]; };

__device__ __forceinline__ Four philox(u64 seed, u64 offset, u64 index) {
  u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
  u32 c0 = (u32)index, c1 = (u32)(index >> 32), c2 = (u32)offset, c3 = (u32)(offset >> 32);
#pragma unroll
  for (int round = 0; round < 10; round++) {
    u32 h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
    u32 h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
    c0 = h1 ^ c1 ^ k0;
    c1 = l1;
    c2 = h0 ^ c3 ^ k1;
    c3 = l0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return Four{{c0, c1, c2, c3}};
}

// In [0, 1), 24 bits.
__device__ __forceinline__ float uniform(u32 bits) { return (bits >> 8) * 5.9604644775390625e-8f; }

// ---- many tensors at once: `L` lists of addresses, one a tensor ------------------------------------------------------------

// A block has one chunk of one tensor: `first` says with which block each tensor begins.
enum : u32 { CHUNK = 4096 };

__device__ constexpr u32 tensors(u32 lists) { return 3584 / (8 * lists + 12); }

template <u32 L> struct Lists {
  u64 address[L][tensors(L)], size[tensors(L)];
  u32 first[tensors(L)], count;

  // The tensor of this block.
  __device__ __forceinline__ u32 tensor() const {
    u32 low = 0, high = count;
    while (high - low > 1) {
      u32 middle = (low + high) / 2;
      if (first[middle] <= blockIdx.x) low = middle;
      else high = middle;
    }
    return low;
  }

  // Calls f with an element of each of the first `M` lists, for all of this block's, and writes back what f writes. Where an address is 0,
  // the element is anything.
  template <class E, u32 M, class F> __device__ __forceinline__ void each(u32 t, F f) const {
    const int N = Width<E>::value;
    u64 begin = (u64)(blockIdx.x - first[t]) * CHUNK, end = min(size[t], begin + CHUNK);
    E *p[M];
    bool packs = true;
#pragma unroll
    for (u32 l = 0; l < M; l++) {
      p[l] = reinterpret_cast<E *>(address[l][t]);
      packs = packs && aligned<E, N>(p[l]);
    }
    u64 packed = packs ? begin + (end - begin) / N * N : begin;
    for (u64 i = begin + (u64)threadIdx.x * N; i < packed; i += (u64)blockDim.x * N) {
      Pack<E, N> pack[M];
#pragma unroll
      for (u32 l = 0; l < M; l++)
        if (p[l]) pack[l].load(p[l] + i);
#pragma unroll
      for (int j = 0; j < N; j++) {
        E v[M];
#pragma unroll
        for (u32 l = 0; l < M; l++) v[l] = pack[l][j];
        f(v);
#pragma unroll
        for (u32 l = 0; l < M; l++) pack[l][j] = v[l];
      }
#pragma unroll
      for (u32 l = 0; l < M; l++)
        if (F::writes(l) && p[l]) pack[l].store(p[l] + i);
    }
    for (u64 i = packed + threadIdx.x; i < end; i += blockDim.x) {
      E v[M];
#pragma unroll
      for (u32 l = 0; l < M; l++)
        if (p[l]) v[l] = p[l][i];
      f(v);
#pragma unroll
      for (u32 l = 0; l < M; l++)
        if (F::writes(l) && p[l]) p[l][i] = v[l];
    }
  }
};
#define LISTS(L) const __grid_constant__ Lists<L>

// Settings go by value without __grid_constant__: NVRTC 13.0 takes a local struct that begins with the same members for a copy of such an
// argument, and reads the members after these from the argument's bytes, whatever was computed.

// What a gradient scaler hands to a fused optimizer: either may be absent (0).
struct Scaling {
  const float *grad_scale, *found_inf;
  __device__ __forceinline__ bool skips() const { return found_inf && *found_inf != 0.f; }
  template <class A> __device__ __forceinline__ A unscale(A g) const { return grad_scale ? g / A(*grad_scale) : g; }
};
