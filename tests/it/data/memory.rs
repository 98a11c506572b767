//! What the pipeline does to device memory: nothing, but for device_prefetch, whose second set of inputs is predicted and measured.

use super::files::{classifier, write_samples};
use crate::support::{Sandbox, rows};

fn csv(s: &Sandbox, device: &str, arguments: &[&str]) -> String {
    s.run(&[&["a.toml", "--device", device, "--quiet", "--out", device], arguments].concat()).exits(0);
    s.read(&format!("{device}/a.csv"))
}

#[test]
fn files_change_no_row() {
    let s = Sandbox::new();
    write_samples(&s);
    s.write("a.toml", &classifier("source = { npy = { input = \"x.npy\", target = \"y.npy\" } }"));
    let with_files = csv(&s, "host", &[]);
    assert_eq!(with_files, csv(&s, "virtual", &[]));
    assert_eq!(with_files, csv(&s, "host", &["--set", "data.source=synthetic"]));
    assert_eq!(with_files, csv(&s, "host", &["--set", "data.workers=4", "--set", "data.prefetch=9"]));
}

#[test]
fn the_batch_copied_ahead_is_predicted_and_measured() {
    let s = Sandbox::new();
    write_samples(&s);
    s.write("a.toml", &classifier("source = { npy = { input = \"x.npy\", target = \"y.npy\" } }\ndevice_prefetch = true"));
    for accumulation in ["1", "3"] {
        let set = ["--set", &format!("train.accumulation_steps={accumulation}"), "--set", "train.batch_size=5,1000"];
        let ahead = csv(&s, "host", &set);
        assert_eq!(ahead, csv(&s, "virtual", &set));
        let plain = csv(&s, "host", &[&set[..], &["--set", "data.device_prefetch=false"]].concat());
        let (ahead, plain) = (rows(&ahead), rows(&plain));
        assert_eq!(ahead.len(), plain.len());
        for (a, p) in ahead.iter().zip(&plain) {
            let inputs = |r: &std::collections::BTreeMap<String, String>| r["inputs"].parse::<u64>().unwrap();
            for figure in ["allocated", "peak", "reserved"] {
                assert_eq!(a[&format!("error_{figure}")], "0");
            }
            let last = a["step"] == "12" && a["micro_step"] == accumulation;
            let times = if a["phase"] == "model" || last { 1 } else { 2 };
            assert_eq!(inputs(a), times * inputs(p), "{a:?}");
        }
    }
}

#[test]
fn lengths_that_vary_are_copied_ahead_too() {
    let s = Sandbox::new();
    s.write(
        "a.toml",
        "[model]\ninput = { tokens = { length = 8, vocabulary = 16 } }\nlayers = [{ embedding = { num_embeddings = 16, embedding_dim = 8 } }]\n\
         [train]\nbatch_size = 4\nlengths = [100, 900, 3]\noptimizer = \"sgd\"\n[data]\ndevice_prefetch = true\n",
    );
    for device in ["virtual", "host"] {
        s.run(&["a.toml", "--device", device]).exits(0);
    }
}

/// Resident memory of a run in KiB at its highest, as the shell's `time` counts it on Linux.
#[test]
#[cfg(target_os = "linux")]
fn a_hundred_epochs_do_not_grow_host_memory() {
    use crate::support::runner;
    let s = Sandbox::new();
    write_samples(&s);
    // Samples large enough to show: 23 of 64 KiB, 100 epochs are 147 MiB.
    let bytes: Vec<u8> = (0..23u32 * 16384).flat_map(|i| ((i % 100) as f32).to_le_bytes()).collect();
    super::files::npy(&s.path("big.npy"), "<f4", "23, 16384", &bytes);
    s.write(
        "a.toml",
        "[model]\ninput = { features = [16384] }\nlayers = [{ linear = { out_features = 1 } }]\n[train]\nbatch_size = 23\nsteps = 100\nloss = \"mean\"\n\
         optimizer = { sgd = { lr = 0.0 } }\n[data]\nsource = { npy = { input = \"big.npy\" } }\nworkers = 3\nprefetch = 2\nshuffle = 10\n",
    );
    let peak = |steps: &str| -> u64 {
        let mut child = std::process::Command::new(runner())
            .args(["a.toml", "--device", "host", "--quiet", "--set", &format!("train.steps={steps}")])
            .current_dir(s.path(""))
            .spawn()
            .unwrap();
        let mut highest = 0;
        while child.try_wait().unwrap().is_none() {
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
            let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).and_then(|l| l.trim().strip_suffix(" kB"));
            highest = line.and_then(|l| l.trim().parse().ok()).unwrap_or(0).max(highest);
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        highest
    };
    let (few, many) = (peak("20"), peak("100"));
    assert!(many < few + 16 * 1024, "20 epochs took {few} KiB at most, 100 epochs {many} KiB");
}

/// What a host run is sampled for: this process's processor time and memory.
#[test]
#[cfg(target_os = "linux")]
fn processor_time_and_memory_are_sampled_on_the_host() {
    let s = Sandbox::new();
    write_samples(&s);
    s.write("a.toml", &classifier("source = { npy = { input = \"x.npy\", target = \"y.npy\" } }\nprepare = [{ cost = \"10ms\" }]"));
    s.run(&["a.toml", "--device", "host", "--quiet"]).exits(0);
    let told = rows(&s.read("results/a.training.csv"));
    let last = told.last().unwrap();
    assert!(last["memory"].parse::<u64>().unwrap() > 1 << 20, "{last:?}");
    assert!(last["cpu"].parse::<u64>().unwrap() < 400, "{last:?}");
    assert!(last["utilisation"].is_empty() && last["power"].is_empty(), "{last:?}");
}
