//! The last process: lets go of everything that is not the server's and becomes it.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use rustix::process::{Signal, chdir, set_parent_process_death_signal};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::Workshop;
use crate::launch::steps::failure;
use crate::limits;
use crate::report::{Failure, Layer, LimitsKind};
use crate::seccomp::Filters;
use crate::sys::{self, Range};

impl Workshop {
    /// Does not come back if all goes well.
    pub(super) fn become_server(mut self, filters: Option<&Filters>) -> Result<ExitCode, Failure> {
        // Memory first: after the limit is in force nothing may have to be allocated.
        let program = text(self.orders.program.as_os_str().as_bytes())?;
        let arguments = self.orders.arguments.iter().map(|word| text(word.as_bytes()));
        let arguments: Vec<CString> = arguments.collect::<Result<_, _>>()?;
        let variables = self.orders.environment.iter();
        let variables = variables.map(|(name, value)| text(format!("{name}={value}").as_bytes()));
        let environment: Vec<CString> = variables.collect::<Result<_, _>>()?;

        self.steps.step(Layer::DeathSignal, || {
            Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
        })?;
        let [stdin, stdout, stderr] = &self.streams;
        self.steps.step(Layer::Descriptors, || {
            dup2_stdin(stdin)?;
            dup2_stdout(stdout)?;
            dup2_stderr(stderr)?;
            sys::close_range(3, u32::MAX, Range::CloseOnExec)
        })?;
        let workspace = &self.orders.workspace;
        let hint = "a directory above the workspace is closed to the server's uid; open it or move the workspace";
        self.steps
            .step_about(Layer::WorkingDirectory, hint, || Ok(chdir(workspace)?))?;
        self.steps.step(Layer::Execute, sys::restore_signals)?;
        if self.orders.limits_kind == LimitsKind::Rlimit {
            let limits = self.orders.limits;
            self.steps.step(Layer::Limits, || limits::apply_memory(&limits))?;
        }
        if let Some(filters) = filters.filter(|_| !self.steps.leaves_out(Layer::Seccomp)) {
            self.steps.step(Layer::Seccomp, || filters.apply())?;
        }
        let error = sys::execute(&program, &arguments, &environment);
        Err(failure(
            Layer::Execute,
            &format!("`{}`", self.orders.program.display()),
            &error,
        ))
    }
}

fn text(bytes: &[u8]) -> Result<CString, Failure> {
    CString::new(bytes).map_err(|error| failure(Layer::Execute, "", &io::Error::other(error)))
}
