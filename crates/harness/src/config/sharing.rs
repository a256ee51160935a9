//! What agents of one pipeline could hand each other without its being judged: a place that one may write and another may
//! see. There is no word that allows it (ADR 0046).

use std::path::{Path, PathBuf};

use sandbox::FsPolicy;

use super::{Agent, Fault, Harness, Pipeline, Reference};

/// Every such place of every pipeline.
pub(super) fn faults(harness: &Harness, file: &Path) -> Vec<Fault> {
    let mut faults = Vec::new();
    for pipeline in harness.pipelines.values() {
        let agents: Vec<&Agent> = pipeline.agents().filter_map(|name| harness.agents.get(name)).collect();
        for writer in &agents {
            let Some(place) = written_by(writer) else { continue };
            let others = agents.iter().filter(|other| other.name != writer.name);
            for reader in others {
                let seen = seen_by(reader, &harness.root)
                    .into_iter()
                    .find(|seen| seen.meets(place));
                faults.extend(seen.map(|seen| fault((pipeline, file), (writer, reader), &seen)));
            }
        }
    }
    faults
}

/// Where a runtime may write what stays. Without walls that is everywhere, which is warned of by itself.
fn written_by(agent: &Agent) -> Option<&Path> {
    match agent.walls.fs {
        FsPolicy::WorkspaceOnly => agent.walls.workspace.as_deref(),
        FsPolicy::ReadOnly | FsPolicy::Unconfined => None,
    }
}

/// Something that reaches an agent.
struct Seen {
    what: &'static str,
    path: PathBuf,
    extent: Extent,
}

enum Extent {
    /// With all that is in it.
    Tree,
    /// By itself.
    File,
}

impl Seen {
    fn meets(&self, place: &Path) -> bool {
        match self.extent {
            Extent::Tree => self.path.starts_with(place) || place.starts_with(&self.path),
            Extent::File => self.path.starts_with(place),
        }
    }
}

fn seen_by(agent: &Agent, root: &Path) -> Vec<Seen> {
    let walls = &agent.walls;
    let mut seen = Vec::new();
    let mut add = |what, path: PathBuf, extent| {
        let path = path.canonicalize().unwrap_or(path);
        seen.push(Seen { what, path, extent });
    };
    // Without walls it sees everything anyway; what it executes and is told matters all the same.
    if walls.fs != FsPolicy::Unconfined {
        if let Some(path) = &walls.workspace {
            add("its workspace", path.clone(), Extent::Tree);
        }
        for path in &walls.read {
            add("`read`", path.clone(), Extent::Tree);
        }
    }
    for word in agent.command.iter().filter(|word| word.contains('/')) {
        add("its command", root.join(word), Extent::File);
    }
    for reference in agent.env.values() {
        match reference {
            Reference::File(path) => add("a variable's file", path.clone(), Extent::File),
            Reference::Variable(_) | Reference::Plain(_) => {}
        }
    }
    seen
}

fn fault((pipeline, file): (&Pipeline, &Path), (writer, reader): (&Agent, &Agent), seen: &Seen) -> Fault {
    let message = format!(
        "agents.{} could write what agents.{} sees by {}; agents hand each other validated outputs and nothing else",
        writer.name, reader.name, seen.what
    );
    let hint =
        "give each a workspace of its own or none, or write `fs = \"read_only\"`; let a hook apply what one made";
    let mut fault = Fault::of_file(file, message, Some(hint));
    fault.key = format!("pipelines.{}", pipeline.name);
    fault
}
