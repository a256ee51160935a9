//! What the harness adds: judging a megabyte of output, and an attempt over its command in a bare sandbox.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use ::harness::{
    AgentName, Context, Contract, Given, Harness, HostEnvironment, IssuedToken, Later, Progress, RawOutput, Recorder,
    Secrets, Setting, Step, TokenIssuer, TokenRequest, Unavailable, run_agent,
};
use ::sandbox::{LAUNCHER_WORD, Launcher};
use anyhow::{Context as _, Result, anyhow};
use ledger::{Event, Ledger, Settings};
use screening::result::strip::Classes;

use crate::sandbox::{plan, spawn_plainly};
use crate::stopwatch::Figure;

const RUNS: usize = 40;
/// Over the command in a bare sandbox, for the least of all runs.
const ATTEMPT_US: f64 = 30_000.0;
const JUDGED_US: f64 = 20_000.0;

const SCHEMA: &str = r#"{"$id":"https://bench.example/findings.v1.json","type":"object","properties":{"findings":{"type":"array","items":
{"type":"object","properties":{"path":{"type":"string","pattern":"^[a-z/._0-9]+$"},"line":{"type":"integer","minimum":1},"severity":{"enum":["low","high"]},"text":{"type":"string","maxLength":400}},
"required":["path","line","severity","text"],"additionalProperties":false}}},"required":["findings"],"additionalProperties":false}"#;

/// Measures unless `only` names something else.
pub(crate) fn measure(only: &str) -> Result<Vec<Figure>> {
    if !"harness".contains(only) {
        return Ok(Vec::new());
    }
    let mut figures = judged()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    figures.extend(runtime.block_on(attempts())?);
    Ok(figures)
}

fn judged() -> Result<Vec<Figure>> {
    let finding = r#"{"path":"src/some/module_1.rs","line":120,"severity":"high","text":"the value is used after it was moved; take a reference, or clone it where it is cheap"},"#;
    let mut document = String::from("{\"findings\":[");
    while document.len() < 1_000_000 {
        document.push_str(finding);
    }
    document.pop();
    document.push_str("]}");
    let raw = RawOutput::new(document.into_bytes());
    let mut figures = Vec::new();
    for (name, classes, secrets) in [
        ("harness: judge 1 MB by its schema", Classes::default(), Secrets::Off),
        ("harness: and refuse hidden text", Classes::ALL, Secrets::Off),
        ("harness: and look for secrets", Classes::ALL, Secrets::Refuse),
    ] {
        let contract = Contract::compile(SCHEMA.as_bytes(), (2 << 20, 32), classes, secrets)?;
        anyhow::ensure!(contract.validate(&raw).0.is_ok(), "the document fits");
        let figure = Figure::of(name, || contract.validate(&raw));
        figures.push(match secrets {
            Secrets::Off => figure.at_most(JUDGED_US),
            Secrets::Record | Secrets::Refuse => figure,
        });
    }
    Ok(figures)
}

async fn attempts() -> Result<Vec<Figure>> {
    let place = std::env::temp_dir().join(format!("portreeve-micro-harness-{}", std::process::id()));
    let harness = Arc::new(make(&place)?);
    let work = place.join("work");
    std::fs::create_dir_all(&work)?;
    std::os::unix::fs::chown(&work, Some(::sandbox::DEDICATED_UID), None).ok();
    let launcher = Arc::new(Launcher::probe_with("/proc/self/exe".into(), vec![LAUNCHER_WORD.into()]).await);
    let setting = Setting {
        state: place.join("state"),
        launcher: launcher.clone(),
        recorder: Arc::new(Log(place.join("state"))),
        tokens: Arc::new(Nobody),
        progress: Arc::new(Nobody),
        environment: HostEnvironment::default(),
        program: None,
    };
    let agent = AgentName::parse("bench").context("a name")?;
    let words = ["sh", "-c", "cat > /dev/null; echo '{\"findings\":[]}' > out.json"];
    let bare = plan(&work, &words)?;
    let (mut whole, mut walled, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    let mut unrecorded = Vec::new();
    let silent = Setting {
        recorder: Arc::new(Nobody),
        ..setting.clone()
    };
    for _ in 0..RUNS {
        let context = Context::begin(silent.clone(), harness.clone(), None, "agent bench").await?;
        let (_hold, stop) = tokio::sync::watch::channel(::harness::Stop::No);
        let began = Instant::now();
        run_agent(&context, &agent, Given::default(), stop).await?;
        unrecorded.push(began.elapsed().as_secs_f64() * 1e6);
        let context = Context::begin(setting.clone(), harness.clone(), None, "agent bench").await?;
        let (_hold, stop) = tokio::sync::watch::channel(::harness::Stop::No);
        let began = Instant::now();
        let run = run_agent(&context, &agent, Given::default(), stop).await?;
        whole.push(began.elapsed().as_secs_f64() * 1e6);
        anyhow::ensure!(run.released.is_some(), "{:?}", run.report);
        let began = Instant::now();
        let mut starting = launcher.start(&bare).await?;
        let doors = starting.take_doors();
        let mut instance = starting.go().await?;
        drop(instance.take_streams());
        instance.wait().await;
        walled.push(began.elapsed().as_secs_f64() * 1e6);
        tokio::task::spawn_blocking(move || drop(doors));
        let began = Instant::now();
        spawn_plainly(&place, &words)?;
        plain.push(began.elapsed().as_secs_f64() * 1e6);
    }
    std::fs::remove_dir_all(&place)?;
    let whole = Figure::from_rounds("harness: a run of one attempt, recorded", whole);
    let unrecorded = Figure::from_rounds("harness: a run of one attempt, not recorded", unrecorded);
    let walled = Figure::from_rounds("the same command in a bare sandbox", walled);
    let over = Figure::from_rounds(
        "harness: least over the least bare sandbox",
        vec![whole.min_us - walled.min_us],
    );
    let plain = Figure::from_rounds("the same command, spawned plainly", plain);
    Ok(vec![whole, unrecorded, walled, plain, over.at_most(ATTEMPT_US)])
}

fn make(place: &Path) -> Result<Harness> {
    for folder in ["schemas", "prompts", "state"] {
        std::fs::create_dir_all(place.join(folder))?;
    }
    std::fs::write(place.join("schemas/findings.v1.json"), SCHEMA)?;
    std::fs::write(place.join("prompts/bench.md"), "Find nothing.\n")?;
    let toml = "version = 1\n[agents.bench]\ncommand = [\"sh\", \"-c\", \"cat > /dev/null; echo '{\\\"findings\\\":[]}' > $HARNESS_OUTPUT_FILE\"]\nprompt = \"prompts/bench.md\"\noutput = { schema = \"schemas/findings.v1.json\" }\n";
    std::fs::write(place.join("harness.toml"), toml)?;
    Harness::load(place).map_err(|faults| anyhow!("{faults}"))
}

/// Opens the log for each record, as a harness without a gateway does.
struct Log(PathBuf);

impl Recorder for Log {
    fn record(&self, event: Event) -> Later<'_, Result<(), Unavailable>> {
        let state = self.0.clone();
        Box::pin(async move {
            let append = move || -> Result<()> {
                let (ledger, _) = Ledger::open(&state, Settings::new("bench/harness"))?;
                ledger.append_event_blocking(event)?;
                ledger.shutdown();
                Ok(())
            };
            let done = tokio::task::spawn_blocking(append).await;
            let done = done.map_err(anyhow::Error::from).and_then(|done| done);
            done.map_err(|error| Unavailable::new("not recorded", error))
        })
    }
}

struct Nobody;

impl Recorder for Nobody {
    fn record(&self, _: Event) -> Later<'_, Result<(), Unavailable>> {
        Box::pin(async { Ok(()) })
    }
}

impl TokenIssuer for Nobody {
    fn issue(&self, _: TokenRequest) -> Later<'_, Result<IssuedToken, Unavailable>> {
        Box::pin(async { Err(Unavailable::new("no token", "nobody makes them")) })
    }

    fn revoke(&self, _: String) -> Later<'_, Result<(), Unavailable>> {
        Box::pin(async { Ok(()) })
    }
}

impl Progress for Nobody {
    fn tell(&self, _: Step) {}
}
