//! The CUDA device by itself. Without a GPU each test says why it is skipped, and passes.

use std::rc::Rc;

use half::{bf16, f16};
use runner::alloc::{Allocator, AllocatorConfig, Backing, Failing};
use runner::device::Operand;
use runner::device::cuda::{Arg, Cuda, CudaError, Entry, Grid, Kernel, Library, Matrix, Pass, Product, Source, Workspace, pack};
use runner::meta::{DType, Shape, TensorMeta, relative_distance as distance};

const MIB: u64 = 1 << 20;

fn gpu() -> Option<Rc<Cuda>> {
    Cuda::open(0).inspect_err(|e| println!("skipped: {e}")).ok()
}

/// Memory for a test: plain blocks, all given back at the end.
struct Arena(Allocator);

impl Arena {
    fn new(cuda: &Rc<Cuda>) -> Self {
        Self(Allocator::new(AllocatorConfig::default(), Box::new(cuda.segments())))
    }

    fn bytes(&mut self, bytes: u64) -> u64 {
        self.0.malloc(bytes).unwrap().address()
    }

    fn put(&mut self, cuda: &Cuda, bytes: &[u8]) -> u64 {
        let address = self.bytes(bytes.len() as u64);
        cuda.upload(address, bytes);
        address
    }
}

fn encode(values: &[f64], dtype: DType) -> Vec<u8> {
    let one = |&v: &f64| match dtype {
        DType::F64 => v.to_ne_bytes().to_vec(),
        DType::F32 => (v as f32).to_ne_bytes().to_vec(),
        DType::F16 => f16::from_f64(v).to_ne_bytes().to_vec(),
        DType::BF16 => bf16::from_f64(v).to_ne_bytes().to_vec(),
        _ => unreachable!("floating types only"),
    };
    values.iter().flat_map(one).collect()
}

fn decode(bytes: &[u8], dtype: DType) -> Vec<f64> {
    let one = |b: &[u8]| match dtype {
        DType::F64 => f64::from_ne_bytes(b.try_into().unwrap()),
        DType::F32 => f64::from(f32::from_ne_bytes(b.try_into().unwrap())),
        DType::F16 => f16::from_ne_bytes(b.try_into().unwrap()).to_f64(),
        DType::BF16 => bf16::from_ne_bytes(b.try_into().unwrap()).to_f64(),
        _ => unreachable!("floating types only"),
    };
    bytes.chunks(dtype.bytes() as usize).map(one).collect()
}

fn get(cuda: &Cuda, address: u64, elements: u64, dtype: DType) -> Vec<f64> {
    let mut bytes = vec![0xff; (elements * dtype.bytes()) as usize];
    cuda.download(address, &mut bytes).unwrap();
    decode(&bytes, dtype)
}

const FLOATS: [(DType, f64); 4] = [(DType::F64, 1e-14), (DType::F32, 1e-6), (DType::F16, 2e-3), (DType::BF16, 1e-2)];

#[test]
fn a_machine_without_cuda_names_what_is_missing_and_where_it_looked() {
    let Err(missing) = Library::Driver.find() else { return println!("skipped: the driver is here") };
    let message = Cuda::open(0).unwrap_err().to_string();
    assert!(message.contains("the driver's library is not found") && message.contains("libcuda.so.1"), "{message}");
    assert!(missing.tried.iter().any(|t| t == "libcuda.so.1"));
}

#[test]
fn an_unversioned_name_is_asked_for_only_of_the_driver() {
    for library in Library::ALL.into_iter().filter(|&l| l != Library::Driver) {
        assert!(library.names().iter().all(|name| !name.ends_with(".so")), "{library:?}");
    }
}

/// Tensors a launch, so that all arguments stay below the 4 KiB that every GPU takes.
const fn most(lists: usize) -> usize {
    3584 / (8 * lists + 12)
}

#[test]
fn the_lists_have_the_size_that_the_compiler_gives_it() {
    for (bytes, lists) in [(pack::<1>(&[]).0, 1), (pack::<3>(&[]).0, 3), (pack::<6>(&[]).0, 6)] {
        let most = most(lists);
        assert_eq!(bytes.len(), (8 * most * (lists + 1) + 4 * most + 4).next_multiple_of(8));
        assert!(bytes.len() < 4096 - 256);
    }
}

#[test]
fn every_tensor_begins_with_a_block_of_its_own() {
    let entry = |elements| Entry { addresses: [512], elements };
    let (bytes, blocks) = pack(&[entry(1), entry(4097), entry(0), entry(8192)]);
    assert_eq!(blocks, 1 + 2 + 2);
    let first = 16 * most(1);
    let firsts: Vec<u32> = bytes[first..first + 16].chunks(4).map(|b| u32::from_ne_bytes(b.try_into().unwrap())).collect();
    assert_eq!(firsts, [0, 1, 3, 3]);
}

#[test]
fn a_gpu_that_is_not_there_is_named() {
    let Some(_) = gpu() else { return };
    assert!(matches!(Cuda::open(99), Err(CudaError::NoSuchGpu { ordinal: 99, .. })));
}

#[test]
fn bytes_come_back_as_they_went() {
    let Some(cuda) = gpu() else { return };
    let mut arena = Arena::new(&cuda);
    let bytes: Vec<u8> = (0..3_000_001u32).map(|i| (i % 251) as u8).collect();
    let (a, b) = (arena.put(&cuda, &bytes), arena.bytes(bytes.len() as u64));
    cuda.copy(b, a, bytes.len() as u64);
    cuda.fill(b, 7, 1000);
    let mut back = vec![0; bytes.len()];
    cuda.download(b, &mut back).unwrap();
    assert!(back[..1000].iter().all(|&x| x == 7) && back[1000..] == bytes[1000..]);
}

#[test]
fn segments_return_to_the_driver() {
    let Some(cuda) = gpu() else { return };
    let mut segments = cuda.segments();
    let total = segments.total_memory();
    assert!(total > 1 << 30 && segments.free_memory() < total);
    let address = segments.allocate(64 * MIB).unwrap();
    assert!(address.is_multiple_of(2 * MIB));
    segments.release(address, 64 * MIB);
    assert!(segments.allocate(2 * total).is_err());
    cuda.check().unwrap();
}

#[test]
fn expandable_segments_map_pages_as_they_are_needed() {
    let Some(cuda) = gpu() else { return };
    let mut config = AllocatorConfig::default();
    config.expandable_segments = true;
    let mut allocator = Allocator::new(config, Box::new(cuda.segments()));
    let small = allocator.malloc(512).unwrap();
    assert_eq!(allocator.reserved(), 2 * MIB);
    let medium = allocator.malloc(3 * MIB).unwrap();
    assert_eq!(allocator.reserved(), 22 * MIB);
    let large = allocator.malloc(30 * MIB).unwrap();
    assert_eq!(allocator.reserved(), 42 * MIB);
    let pattern: Vec<u8> = (0..30 * MIB).map(|i| (i % 253) as u8).collect();
    cuda.upload(large.address(), &pattern);
    cuda.fill(medium.address(), 1, 3 * MIB);
    let mut back = vec![0; pattern.len()];
    cuda.download(large.address(), &mut back).unwrap();
    assert!(back == pattern);
    for block in [small, medium, large] {
        allocator.free(block);
    }
    allocator.empty_cache();
    assert_eq!(allocator.reserved(), 0);
    cuda.check().unwrap();
}

#[test]
fn a_refused_segment_goes_through_the_fallbacks_and_leaks_nothing() {
    let Some(cuda) = gpu() else { return };
    let mut allocator = Allocator::new(AllocatorConfig::default(), Box::new(Failing::new(cuda.segments(), |n| n == 2)));
    let cached = allocator.malloc(40 * MIB).unwrap();
    allocator.free(cached);
    // The second request is refused; what is cached goes back, and the third is granted.
    let block = allocator.malloc(50 * MIB).unwrap();
    assert_eq!((allocator.stats().num_alloc_retries, allocator.reserved()), (1, 50 * MIB));
    allocator.free(block);
    drop(allocator);
    let mut always = Allocator::new(AllocatorConfig::default(), Box::new(Failing::new(cuda.segments(), |_| true)));
    assert!(always.malloc(512).is_err());
    cuda.check().unwrap();
}

fn product_of(m: u64, n: u64, k: u64, a: &[f64], b: &[f64]) -> Vec<f64> {
    let at = |i: u64, j: u64| (0..k).map(|l| a[(i * k + l) as usize] * b[(l * n + j) as usize]).sum();
    (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| at(i, j)).collect()
}

fn transposed(rows: u64, columns: u64, x: &[f64]) -> Vec<f64> {
    (0..columns).flat_map(|c| (0..rows).map(move |r| x[(r * columns + c) as usize])).collect()
}

/// Values that all types hold exactly.
fn values(n: u64, seed: u64) -> Vec<f64> {
    (0..n).map(|i| ((i * 7919 + seed * 104_729) % 129) as f64 / 64.0 - 1.0).collect()
}

#[test]
fn products_agree_with_f64_whatever_is_transposed() {
    let Some(cuda) = gpu() else { return };
    let mut arena = Arena::new(&cuda);
    let workspace = Workspace { address: arena.bytes(32 * MIB), bytes: 32 * MIB };
    for (m, n, k) in [(5, 7, 3), (64, 128, 32), (1, 10, 1024), (33, 1, 65), (256, 64, 1), (1, 1, 1)] {
        let (a, b) = (values(m * k, 1), values(k * n, 2));
        let want = product_of(m, n, k, &a, &b);
        for (dtype, bound) in FLOATS {
            for case in 0..4 {
                let (ta, tb) = (case & 1 != 0, case & 2 != 0);
                let put = |arena: &mut Arena, t: bool, rows: u64, columns: u64, x: &[f64]| {
                    let bytes = encode(&if t { transposed(rows, columns, x) } else { x.to_vec() }, dtype);
                    let address = arena.put(&cuda, &bytes);
                    if t { column_major(address, rows) } else { row_major(address, columns) }
                };
                let (a, b) = (put(&mut arena, ta, m, k, &a), put(&mut arena, tb, k, n, &b));
                let c = arena.bytes(m * n * dtype.bytes());
                let product = Product { dtype, m, n, k, a, b, c };
                for (pass, beta) in [(Pass::Forward, 0.0), (Pass::Backward, 1.0)] {
                    cuda.gemm(pass, workspace, &product, beta);
                    let got = get(&cuda, c, m * n, dtype);
                    let want: Vec<f64> = want.iter().map(|w| w * (1.0 + beta)).collect();
                    let distance = distance(&got, &want);
                    assert!(distance <= bound, "{m}×{n}×{k} {dtype} {ta} {tb}: {distance:e}");
                }
            }
        }
    }
}

/// A matrix of so many columns, its rows one after another.
fn row_major(address: u64, columns: u64) -> Matrix {
    Matrix { address, row_stride: columns, column_stride: 1 }
}

/// A matrix of so many rows, its columns one after another.
fn column_major(address: u64, rows: u64) -> Matrix {
    Matrix { address, row_stride: 1, column_stride: rows }
}

#[test]
fn a_bias_is_added_in_the_epilogue() {
    let Some(cuda) = gpu() else { return };
    let mut arena = Arena::new(&cuda);
    let workspace = Workspace { address: arena.bytes(MIB), bytes: MIB };
    for (m, n, k) in [(1, 16, 32), (32, 10, 1024), (17, 130, 65)] {
        let (a, w, bias) = (values(m * k, 3), values(n * k, 4), values(n, 5));
        let mut want = product_of(m, n, k, &a, &transposed(n, k, &w));
        want.iter_mut().zip(bias.iter().cycle()).for_each(|(x, b)| *x += b);
        for (dtype, bound) in FLOATS {
            let mut put = |x: &[f64]| arena.put(&cuda, &encode(x, dtype));
            let (a, w, bias) = (row_major(put(&a), k), column_major(put(&w), k), put(&bias));
            let c = arena.bytes(m * n * dtype.bytes());
            // Twice: the second time by what was found out the first time.
            for _ in 0..2 {
                cuda.fill(c, 0xff, m * n * dtype.bytes());
                let done = cuda.gemm_bias(workspace, &Product { dtype, m, n, k, a, b: w, c }, bias);
                cuda.check().unwrap();
                assert!(done, "{m}×{n}×{k} {dtype}: cuBLASLt has nothing for it");
                let distance = distance(&get(&cuda, c, m * n, dtype), &want);
                assert!(distance <= bound, "{m}×{n}×{k} {dtype}: {distance:e}");
            }
        }
    }
}

static KERNELS: Source = Source {
    name: "test",
    text: "
KERNEL add_one(u64 n, VIEW out, VIEW x) { map1(n, Out<T>(out), In<T>(x), [](T x) { return narrow<T>(widen(x) + 1); }); }
struct Twice {
  static __device__ constexpr bool writes(u32 list) { return list == 0; }
  __device__ void operator()(T (&v)[2]) const { v[0] = narrow<T>(2 * widen(v[1])); }
};
KERNEL twice(LISTS(2) lists) { lists.each<T, 2>(lists.tensor(), Twice{}); }
KERNEL stop(u32 now) { if (now) __trap(); }
",
};

static WRONG: Source = Source { name: "wrong", text: "KERNEL wrong(undeclared x) {}" };

#[test]
fn maps_take_any_layout() {
    let Some(cuda) = gpu() else { return };
    let mut arena = Arena::new(&cuda);
    let x = values(6 * 35, 6);
    for (dtype, bound) in FLOATS {
        let address = arena.put(&cuda, &encode(&x, dtype));
        let shape = |d: &[u64]| Shape::new(d).unwrap();
        let layouts = [
            TensorMeta::contiguous(shape(&[6, 35]), dtype),
            TensorMeta { shape: shape(&[35, 6]), dtype, strides: vec![1, 35] },
            TensorMeta { shape: shape(&[6, 4, 5]), dtype, strides: vec![35, 0, 7] },
            TensorMeta { shape: shape(&[3, 2, 5]), dtype, strides: vec![70, 35, 2] },
            TensorMeta::expanded(shape(&[33]), dtype),
            TensorMeta::scalar(dtype),
        ];
        for meta in layouts {
            let out = TensorMeta::contiguous(meta.shape.clone(), dtype);
            let to = arena.bytes(out.bytes());
            cuda.map(&KERNELS, "add_one", Operand { address: to, meta: &out }, [Operand { address, meta: &meta }], &[]);
            let mut want = vec![0.0];
            for (&size, &stride) in meta.shape.dims().iter().zip(&meta.strides) {
                want = want.iter().flat_map(|o| (0..size).map(move |i| o + (i * stride) as f64)).collect();
            }
            let want: Vec<f64> = want.iter().map(|&o| x[o as usize] + 1.0).collect();
            let got = get(&cuda, to, out.numel(), dtype);
            assert!(distance(&got, &want) <= bound, "{dtype} {meta:?}");
        }
    }
}

#[test]
fn many_tensors_are_reached_in_few_launches() {
    let Some(cuda) = gpu() else { return };
    let mut arena = Arena::new(&cuda);
    for (dtype, bound) in FLOATS {
        let sizes: Vec<u64> = (0..200).map(|i| 1 + i * i % 9001).collect();
        let tensors: Vec<(u64, Vec<f64>, u64)> = sizes
            .iter()
            .map(|&n| {
                let x = values(n, n);
                (arena.bytes(n * dtype.bytes()), x.clone(), arena.put(&cuda, &encode(&x, dtype)))
            })
            .collect();
        let entries: Vec<Entry<2>> =
            tensors.iter().map(|(to, x, from)| Entry { addresses: [*to, *from], elements: x.len() as u64 }).collect();
        cuda.many(Kernel { source: &KERNELS, entry: "twice", types: &[dtype] }, &entries, &[]);
        for (to, x, _) in &tensors {
            let want: Vec<f64> = x.iter().map(|x| 2.0 * x).collect();
            let got = get(&cuda, *to, x.len() as u64, dtype);
            assert!(distance(&got, &want) <= bound, "{dtype} {}", x.len());
        }
    }
}

#[test]
fn a_kernel_that_does_not_compile_says_so() {
    let Some(cuda) = gpu() else { return };
    cuda.launch(Kernel { source: &WRONG, entry: "wrong", types: &[DType::F32] }, Grid::line(1, 1), &[]);
    let message = cuda.check().unwrap_err().to_string();
    assert!(message.contains("wrong-f32") && message.contains("undeclared"), "{message}");
    // Everything after a failure does nothing, and says the same.
    assert_eq!(cuda.synchronize().unwrap_err().to_string(), message);
}

/// A GPU that is lost takes its context with it, so this happens in a process of its own.
#[test]
fn a_lost_gpu_is_one_clear_message() {
    let Some(_) = gpu() else { return };
    let exe = std::env::current_exe().unwrap();
    let run = std::process::Command::new(exe).args(["--exact", "cuda::lose_the_gpu", "--ignored", "--nocapture"]).output().unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && text.contains("the GPU is lost"), "{text}{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
#[ignore = "loses the GPU; `a_lost_gpu_is_one_clear_message` runs it"]
fn lose_the_gpu() {
    let Some(cuda) = gpu() else { return };
    cuda.launch(Kernel { source: &KERNELS, entry: "stop", types: &[DType::F32] }, Grid::line(1, 1), &[Arg::from(1u32)]);
    let error = cuda.synchronize().unwrap_err();
    assert!(matches!(error, CudaError::Lost { .. }), "{error}");
    println!("{error}");
}
