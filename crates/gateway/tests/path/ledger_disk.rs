//! The disk under the log, which can be full: no file of this process may grow past the size that the log has then.
//! The kernel refuses the write, as it does on a full disk; nothing of the gateway or the ledger is replaced.

use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, Signal as SignalNumber, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{Event, Level, Metadata, Subscriber, span};

/// See the module.
pub(super) struct LedgerDisk {
    limit: FileLimit,
    /// Without a handler the first write past the limit ends the process.
    _handled: Signal,
}

/// What a script can hold on to.
#[derive(Clone)]
pub(super) struct FileLimit {
    segment: PathBuf,
    ample: Rlimit,
}

impl LedgerDisk {
    /// The disk under the log of a state directory, with room for now.
    pub(super) fn of(state: &Path) -> Self {
        let number = SignalKind::from_raw(SignalNumber::XFSZ.as_raw());
        Self {
            limit: FileLimit {
                segment: state.join("ledger/00000001.jsonl"),
                ample: getrlimit(Resource::Fsize),
            },
            _handled: signal(number).unwrap(),
        }
    }

    /// Nothing more can be written.
    pub(super) fn fill(&self) {
        self.limit.fill();
    }

    /// There is room again.
    pub(super) fn free(&self) {
        self.limit.free();
    }

    /// There will be room again as soon as a write has failed: everything after the first failure can be written.
    pub(super) fn free_at_failure(&self) {
        tracing::subscriber::set_global_default(FreesAtFailure(self.limit())).unwrap();
    }

    /// For a script, to fill it while a call is at its server.
    pub(super) fn limit(&self) -> FileLimit {
        self.limit.clone()
    }
}

impl FileLimit {
    /// Nothing more can be written.
    pub(super) fn fill(&self) {
        self.fill_but(0);
    }

    /// So many bytes can be written, and no more.
    pub(super) fn fill_but(&self, bytes: u64) {
        let written = std::fs::metadata(&self.segment).unwrap().len();
        let full = Rlimit {
            current: Some(written + bytes),
            ..self.ample
        };
        setrlimit(Resource::Fsize, full).unwrap();
    }

    fn free(&self) {
        setrlimit(Resource::Fsize, self.ample).unwrap();
    }
}

/// Hears the ledger say that it cannot write, which it does before it tells those who wait for it.
struct FreesAtFailure(FileLimit);

impl Subscriber for FreesAtFailure {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR && metadata.target().starts_with("portreeve_ledger")
    }

    fn event(&self, _: &Event<'_>) {
        self.0.free();
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
