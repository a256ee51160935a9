//! The launcher's steps: each is named, each is fatal, and each can be made to fail by a test.

use std::io;

use crate::filesystem::PathError;
use crate::report::{Failure, Layer};

/// A step that a test makes fail, or leaves out. Only a launcher that calls
/// [`super::launcher::launcher_main_sabotaged`] has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sabotage {
    /// The step.
    pub layer: Layer,
    /// The error it fails with; 0 leaves the wall out, which only `seccomp`, `landlock` and namespaces know how to.
    pub errno: i32,
}

/// Keeps count of what was done.
#[derive(Debug)]
pub(crate) struct Steps {
    sabotage: Option<Sabotage>,
    done: Vec<Layer>,
}

impl Steps {
    pub(crate) fn new(sabotage: Option<Sabotage>) -> Self {
        Self {
            sabotage,
            done: Vec::new(),
        }
    }

    /// Does one step; after a failure nothing else may be done.
    pub(crate) fn step<T>(&mut self, layer: Layer, work: impl FnOnce() -> io::Result<T>) -> Result<T, Failure> {
        self.step_about(layer, "", work)
    }

    /// Does one step whose failure needs a word of explanation.
    pub(crate) fn step_about<T>(
        &mut self,
        layer: Layer,
        about: &str,
        work: impl FnOnce() -> io::Result<T>,
    ) -> Result<T, Failure> {
        let outcome = match self.sabotage {
            Some(sabotage) if sabotage.layer == layer && sabotage.errno != 0 => {
                Err(io::Error::from_raw_os_error(sabotage.errno))
            }
            _ => work(),
        };
        let value = outcome.map_err(|error| failure(layer, about, &error))?;
        self.done.push(layer);
        Ok(value)
    }

    /// Whether a test wants to see what gets through without this wall.
    pub(crate) fn leaves_out(&self, layer: Layer) -> bool {
        self.sabotage
            .is_some_and(|sabotage| sabotage.layer == layer && sabotage.errno == 0)
    }

    /// The walls among the steps that were done, and seccomp, which cannot be reported once it is there.
    pub(crate) fn walls(&self, seccomp: Option<Layer>) -> Vec<Layer> {
        let is_wall = |layer: &&Layer| WALLS.contains(layer);
        self.done.iter().filter(is_wall).copied().chain(seccomp).collect()
    }
}

/// What went wrong, with the words of whoever noticed.
pub(crate) fn failure(layer: Layer, about: &str, error: &io::Error) -> Failure {
    let detail = match about {
        "" => error.to_string(),
        about => format!("{error}; {about}"),
    };
    Failure {
        layer,
        errno: PathError::errno(error),
        detail,
    }
}

/// The steps that reports list; the others are the way there.
const WALLS: [Layer; 13] = [
    Layer::UserNamespace,
    Layer::MountNamespace,
    Layer::PidNamespace,
    Layer::IpcNamespace,
    Layer::UtsNamespace,
    Layer::CgroupNamespace,
    Layer::NetNamespace,
    Layer::EgressTap,
    Layer::Capabilities,
    Layer::NoNewPrivileges,
    Layer::Landlock,
    Layer::LandlockScope,
    Layer::Seccomp,
];
