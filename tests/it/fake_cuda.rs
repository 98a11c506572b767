//! The CUDA device over libraries that only count (`tests/fixtures/fake_cuda.rs`): what the program asks for, and how it ends where the GPU
//! fails it. It shows nothing of what a GPU computes; `runner selftest` on one does.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::support::{Sandbox, repository, rows};

const EXPERIMENT: &str = r#"
[model]
input = { features = [64] }
layers = [{ linear = { out_features = 1024 } }, "relu", { linear = { out_features = 512 } }, { layer_norm = {} }, "gelu", { linear = { out_features = 1 } }]

[train]
batch_size = 32
steps = 2
loss = "mse"
optimizer = { adamw = { implementation = "fused" } }
amp = "f16"
"#;

/// The folder of the libraries, built once; `None` where there is no compiler. NVML is in a folder beside it, called `nvml`.
pub(crate) fn libraries() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fake_cuda");
            std::fs::create_dir_all(&folder).unwrap();
            let first = folder.join("libcuda.so");
            let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
            let mut command = Command::new(compiler);
            command.current_dir(repository()).args(["--edition", "2024", "--crate-type", "cdylib", "tests/fixtures/fake_cuda.rs", "-o"]);
            match command.arg(&first).output() {
                Err(e) => {
                    println!("skipped: {e}");
                    return None;
                }
                Ok(out) => assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr)),
            }
            std::fs::create_dir_all(folder.join("nvml")).unwrap();
            let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
            command.current_dir(repository()).args(["--edition", "2024", "--crate-type", "cdylib", "--cfg", "feature=\"nvml\""]);
            let built = command.arg("tests/fixtures/fake_cuda.rs").arg("-o").arg(folder.join("nvml/libnvidia-ml.so.1")).output().unwrap();
            assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
            for name in ["libcuda.so.1", "libnvrtc.so.13", "libcublas.so.13", "libcublasLt.so.13"] {
                std::fs::copy(&first, folder.join(name)).unwrap();
            }
            Some(folder)
        })
        .as_deref()
}

/// Runs the experiment on the stand-in with these settings.
fn on_cuda(s: &Sandbox, settings: &str) -> Option<crate::support::Outcome> {
    let folder = libraries()?.display();
    s.write("net.toml", EXPERIMENT);
    let run =
        format!("FAKE_CUDA_REPORT=report {settings} XDG_CACHE_HOME=$PWD/cache LD_LIBRARY_PATH='{folder}' $RUNNER net.toml --device cuda");
    Some(s.shell(&run))
}

const NOTHING_HELD: &str = "0 segments, 0 pinned, 0 modules, 0 streams, 0 events\n";

#[test]
fn a_gpu_gives_the_bytes_that_virtual_foresees_and_gets_everything_back() {
    let s = Sandbox::new();
    for state_of_cache in ["empty", "filled"] {
        let Some(out) = on_cuda(&s, "") else { return };
        let out = out.exits(0);
        assert_eq!(out.stderr, "");
        assert!(out.stdout.contains("reserved + 0 B\n"), "{state_of_cache}: the identity is not whole:\n{}", out.stdout);
        assert_eq!(s.read("report"), NOTHING_HELD);
        assert_eq!(s.list("cache/runner/products").len(), 1);
        assert!(s.list("cache/runner/kernels").iter().any(|name| name.starts_with("adam-f32-sm_90-")));
    }
    s.run(&["net.toml", "--device", "virtual", "--out", "virtual"]).exits(0);
    assert_eq!(s.read("results/net.csv"), s.read("virtual/net.csv"));
}

#[test]
fn what_libraries_load_by_themselves_has_a_line_of_its_own() {
    let s = Sandbox::new();
    let Some(out) = on_cuda(&s, "FAKE_CUDA_LAZY=67108864") else { return };
    let out = out.exits(0);
    assert!(out.stdout.contains(" + 64.00 MiB loaded while training + "), "{}", out.stdout);
    assert!(out.stdout.contains("reserved + 0 B\n"), "the identity is not whole:\n{}", out.stdout);
    assert!(s.read("results/net.run.toml").contains("loaded = 67108864\n"));
}

#[test]
fn timed_products_are_kept_and_what_is_damaged_is_timed_again() {
    let s = Sandbox::new();
    let Some(out) = on_cuda(&s, "") else { return };
    out.exits(0);
    let file = format!("cache/runner/products/{}", s.list("cache/runner/products")[0]);
    let whole = s.read(&file);
    assert!(whole.lines().count() >= 2, "{whole}");
    s.write(&file, &format!("f32 = 1 2\nnothing\n{}", &whole[..whole.len() / 3]));
    on_cuda(&s, "").unwrap().exits(0);
    assert_eq!(s.read(&file), whole);
}

#[test]
fn libraries_are_named_with_the_files_that_they_come_from() {
    let Some(folder) = libraries() else { return };
    let out = Sandbox::new().shell(&format!("LD_LIBRARY_PATH='{}' $RUNNER devices", folder.display())).exits(0);
    for name in ["libcuda.so", "libnvrtc.so.13", "libcublas.so.13", "libcublasLt.so.13"] {
        let path = folder.join(name);
        assert!(out.stdout.contains(path.to_str().unwrap()), "no {}:\n{}", path.display(), out.stdout);
    }
}

#[test]
fn a_gpu_that_is_lost_at_any_moment_is_one_line_and_no_file() {
    for moment in [1, 2, 9, 40, 70, 100, 130] {
        let s = Sandbox::new();
        let Some(out) = on_cuda(&s, &format!("FAKE_CUDA_LOSE={moment}")) else { return };
        let out = out.exits(1);
        assert!(
            out.stderr.starts_with("the GPU is lost: cu") && out.stderr.contains("CUDA_ERROR_ILLEGAL_ADDRESS"),
            "{moment}: {}",
            out.stderr
        );
        assert_eq!(out.stderr.lines().count(), 1, "{moment}: {}", out.stderr);
        assert_eq!(s.list("results"), [""; 0], "{moment}");
        assert_eq!(s.read("report"), NOTHING_HELD, "{moment}");
    }
}

#[test]
fn a_segment_refused_once_is_asked_for_again_and_one_refused_for_good_is_a_row() {
    for number in 1..=6 {
        let s = Sandbox::new();
        let Some(out) = on_cuda(&s, &format!("FAKE_CUDA_REFUSE_ONCE={number}")) else { return };
        out.exits(0);
        assert_eq!(s.read("report"), NOTHING_HELD, "{number}");
        on_cuda(&s, &format!("FAKE_CUDA_REFUSE={number}")).unwrap().exits(1);
        let csv = s.read("results/net.csv");
        let measured: Vec<_> = rows(&csv).into_iter().filter(|row| !row["measured_peak"].is_empty()).collect();
        let (last, before) = measured.split_last().unwrap();
        assert_eq!(last["status"], "oom", "{number}");
        assert!(before.iter().all(|row| row["status"] == "ok"), "{number}");
        assert_eq!(s.read("report"), NOTHING_HELD, "{number}");
    }
}

#[test]
fn a_model_that_is_too_large_says_so_before_its_weights_are_drawn() {
    let s = Sandbox::new();
    let Some(folder) = libraries() else { return };
    // The first weight fits, and would take minutes to draw.
    let layer = "{ linear = { out_features = 150000 } }";
    s.write(
        "large.toml",
        &format!("[model]\ninput = {{ features = [150000] }}\nlayers = [{layer}, {layer}]\n[train]\nbatch_size = 1\noptimizer = \"sgd\"\n"),
    );
    let run = format!("XDG_CACHE_HOME=$PWD/cache LD_LIBRARY_PATH='{}' $RUNNER large.toml --device cuda", folder.display());
    let started = std::time::Instant::now();
    s.shell(&run).exits(1);
    let csv = s.read("results/large.csv");
    let last = rows(&csv).pop().unwrap();
    assert_eq!((last["phase"].as_str(), last["status"].as_str()), ("model", "oom"));
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}
