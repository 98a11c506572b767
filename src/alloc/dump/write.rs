//! Writing a dump with PyTorch's keys in PyTorch's order, so that its viewers open it.

use super::types::{Dump, DumpBlock, DumpSegment, DumpState, TraceAction, TraceEntry};
use crate::alloc::pickle::Encoder;
use crate::alloc::{AllocatorConfig, Divisions};

impl Dump {
    /// The pickle that `torch.cuda.memory._dump_snapshot` would write.
    #[must_use]
    pub fn to_pickle(&self) -> Vec<u8> {
        let mut writer = Writer { e: Encoder::new(), dump: self, written: vec![None; self.stacks.len()] };
        writer.all();
        writer.e.finish()
    }
}

struct Writer<'a> {
    e: Encoder,
    dump: &'a Dump,
    /// Where in the memo each stack is, once written.
    written: Vec<Option<u32>>,
}

impl Writer<'_> {
    fn number(&mut self, key: &str, value: u64) {
        self.e.text(key);
        self.e.integer(value.into());
    }

    fn words(&mut self, key: &str, value: &str) {
        self.e.text(key);
        self.e.text(value);
    }

    fn all(&mut self) {
        self.e.open_dict();
        self.e.text("segments");
        self.e.open_list();
        for segment in &self.dump.segments {
            self.segment(segment);
        }
        self.e.close_list();
        self.e.text("device_traces");
        self.e.open_list();
        for trace in &self.dump.traces {
            self.e.open_list();
            for entry in trace {
                self.entry(entry);
            }
            self.e.close_list();
        }
        self.e.close_list();
        self.e.text("allocator_settings");
        self.settings();
        self.e.text("external_annotations");
        self.e.open_list();
        for annotation in &self.dump.annotations {
            self.e.open_dict();
            self.words("stage", if annotation.start { "START" } else { "END" });
            self.words("name", &annotation.name);
            self.number("device", annotation.device.into());
            self.number("time_us", annotation.time_us);
            self.e.close_dict();
        }
        self.e.close_list();
        self.e.close_dict();
    }

    fn segment(&mut self, segment: &DumpSegment) {
        let sum = |of: fn(&DumpBlock) -> u64, counts: fn(DumpState) -> bool| -> u64 {
            segment.blocks.iter().filter(|b| counts(b.state)).map(of).sum()
        };
        self.e.open_dict();
        self.number("device", segment.device.into());
        self.number("address", segment.address);
        self.number("total_size", segment.bytes);
        self.number("allocated_size", sum(|b| b.bytes, |s| s == DumpState::Allocated));
        self.number("active_size", sum(|b| b.bytes, DumpState::is_active));
        self.number("requested_size", sum(|b| b.requested, DumpState::is_active));
        self.number("stream", segment.stream);
        self.words("segment_type", if segment.large { "large" } else { "small" });
        self.e.text("segment_pool_id");
        self.e.pair(0, 0);
        self.e.text("is_expandable");
        self.e.bool(segment.expandable);
        self.e.text("frames");
        self.stack(None);
        self.e.text("blocks");
        self.e.open_list();
        for block in &segment.blocks {
            self.e.open_dict();
            self.number("address", block.address);
            self.number("size", block.bytes);
            self.number("requested_size", block.requested);
            self.words("state", block.state.name());
            self.e.text("frames");
            self.stack(block.stack);
            self.e.close_dict();
        }
        self.e.close_list();
        self.e.close_dict();
    }

    fn entry(&mut self, entry: &TraceEntry) {
        self.e.open_dict();
        self.words("action", entry.action.name());
        self.number(if entry.action == TraceAction::Oom { "device_free" } else { "addr" }, entry.address);
        self.number("size", entry.bytes);
        self.number("stream", entry.stream);
        self.number("time_us", entry.time_us);
        self.words("compile_context", "N/A");
        self.words("user_metadata", "");
        if entry.stack.is_some() {
            self.e.text("frames");
            self.stack(entry.stack);
        }
        self.e.close_dict();
    }

    /// A stack's frames: written once, then referred to.
    fn stack(&mut self, stack: Option<u32>) {
        let Some(stack) = stack else {
            self.e.open_list();
            return self.e.close_list();
        };
        if let Some(place) = self.written[stack as usize] {
            return self.e.again(place);
        }
        self.written[stack as usize] = Some(self.e.open_list_memoized());
        for frame in &self.dump.stacks[stack as usize] {
            self.e.open_dict();
            self.words("name", &frame.name);
            self.words("filename", &frame.filename);
            self.number("line", frame.line);
            self.e.close_dict();
        }
        self.e.close_list();
    }

    fn settings(&mut self) {
        let default = AllocatorConfig::default();
        let config = self.dump.config.as_ref().unwrap_or(&default);
        self.e.open_dict();
        self.words("PYTORCH_CUDA_ALLOC_CONF", &self.dump.settings);
        self.e.text("max_split_size");
        self.e.integer(config.max_split_size().map_or(-1, i128::from));
        self.e.text("garbage_collection_threshold");
        self.e.float(config.garbage_collection_threshold());
        self.e.text("expandable_segments");
        self.e.bool(config.expandable_segments);
        self.number("pinned_num_register_threads", 1);
        for key in ["release_lock_on_cudamalloc", "pinned_use_cuda_host_register", "graph_capture_record_stream_reuse"] {
            self.e.text(key);
            self.e.bool(false);
        }
        self.e.text("roundup_power2_divisions");
        self.e.open_dict();
        for (interval, &steps) in (0..Divisions::INTERVALS).zip(config.roundup_power2_divisions().steps()) {
            self.number(&(1u64 << interval).to_string(), steps);
        }
        self.e.close_dict();
        self.e.close_dict();
    }
}
