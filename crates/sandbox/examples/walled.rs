//! A gateway in small, for the tests of this crate: a launcher, sound or with a fault, and a way to start servers from
//! a process of its own, which can then be another user or be killed.

use std::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Instant;

use portreeve_sandbox::host::{REAPER_WORD, reaper_main};
use portreeve_sandbox::{
    Ending, LAUNCHER_WORD, Launcher, Layer, Plan, PlanDraft, Sabotage, launcher_main, launcher_main_sabotaged,
};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [_, LAUNCHER_WORD] => launcher_main(),
        [_, REAPER_WORD, ..] => reaper_main(),
        [_, LAUNCHER_WORD, layer, errno] => {
            let layer = Layer::ALL.iter().find(|known| known.as_str() == *layer);
            match (layer, errno.parse()) {
                (Some(&layer), Ok(errno)) => launcher_main_sabotaged(Sabotage { layer, errno }),
                _ => ExitCode::from(2),
            }
        }
        [_, "run", workspace, command @ ..] => report(run(workspace, command, &[])),
        [_, "run-in-tier-b", workspace, command @ ..] => report(run(workspace, command, &["userns", "1"])),
        [_, "cost", workspace, runs] => report(cost(workspace, runs)),
        _ => ExitCode::from(2),
    }
}

fn report(outcome: Result<ExitCode, Box<dyn Error>>) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "{error}");
        ExitCode::from(3)
    })
}

/// Starts a server in the workspace, passes on what it says, ends with its code.
#[tokio::main(flavor = "current_thread")]
async fn run(workspace: &str, command: &[&str], fault: &[&str]) -> Result<ExitCode, Box<dyn Error>> {
    let arguments = [LAUNCHER_WORD].iter().chain(fault).map(OsString::from).collect();
    let launcher = Launcher::probe_with("/proc/self/exe".into(), arguments).await;
    let plan = plan(workspace, command)?;
    let mut instance = launcher.start(&plan).await?.go().await?;
    let mut streams = instance.take_streams().ok_or("no streams")?;
    drop(streams.stdin);
    let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
    let _ = tokio::join!(
        tokio::io::copy(&mut streams.stdout, &mut stdout),
        tokio::io::copy(&mut streams.stderr, &mut stderr)
    );
    match instance.wait().await {
        Ending::Exited(code) | Ending::Signalled(code) => Ok(ExitCode::from(u8::try_from(code)?)),
        passed @ Ending::Passed(_) => Err(passed.to_string().into()),
    }
}

/// From the request to the first instruction of `true`, in milliseconds.
#[tokio::main(flavor = "current_thread")]
async fn cost(workspace: &str, runs: &str) -> Result<ExitCode, Box<dyn Error>> {
    use std::io::Write;
    let launcher = Launcher::probe_with("/proc/self/exe".into(), vec![LAUNCHER_WORD.into()]).await;
    let plan = plan(workspace, &["true"])?;
    let mut taken = Vec::new();
    for _ in 0..runs.parse()? {
        let begun = Instant::now();
        let mut starting = launcher.start(&plan).await?;
        // Closing a tap takes the kernel a while; a gateway serves it instead.
        let doors = starting.take_doors();
        let instance = starting.go().await?;
        taken.push(begun.elapsed().as_secs_f64() * 1000.0);
        drop(doors);
        instance.wait().await;
    }
    taken.sort_by(f64::total_cmp);
    let least = taken.first().ok_or("no runs")?;
    let median = taken.get(taken.len() / 2).ok_or("no runs")?;
    writeln!(std::io::stdout(), "minimum {least:.1} ms, median {median:.1} ms")?;
    Ok(ExitCode::SUCCESS)
}

fn plan(workspace: &str, command: &[&str]) -> Result<Plan, Box<dyn Error>> {
    Plan::check(PlanDraft::new(workspace, command.iter().copied())).map_err(|faults| {
        let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
        told.join("\n").into()
    })
}
