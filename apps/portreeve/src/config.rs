//! Configuration: what people write ([`RawConfig`]) and what the program trusts ([`Config`]). The only
//! road between them is `TryFrom`, which reads by the room `settings`: it reports every fault at once and needs no network.

mod allowances;
mod approvals;
mod audit;
mod checked;
mod credential;
mod edit;
mod floating;
mod identity;
mod incident;
mod keys;
mod limits;
mod listen;
mod local;
mod locked;
mod output;
mod policy;
mod process;
mod profile;
mod raw;
mod risk;
mod sandbox;
mod scripts;
mod servers;
mod state;
mod tools;
mod trust;

pub use self::policy::Policy;
pub use self::sandbox::Sandbox;
pub use ::policy::PolicyFile as PolicyText;
pub use approvals::{Approvals, Webhook};
pub use audit::{Audit, Durability, Retention};
pub use checked::Config;
pub use credential::{Credential, GrantWay, Granted};
pub(crate) use edit::{Draft, NewReach, Written, hold, is_web_url, replace};
pub use identity::{Audience, ClaimNames, Identity, JwtIssuer, KeySource, SigningAlgorithm};
pub use incident::Incident;
pub use keys::FORMAT;
pub use limits::{ArgumentLimits, Concurrency, Limits, MessageLimits};
pub use listen::{Listen, Tls};
pub use local::Local;
pub use output::{InArguments, Output, Response};
pub use process::{Environment, Process, Workspace};
pub(crate) use process::{packages, workspaces};
pub use profile::Profile;
pub use raw::{RawConfig, find_file, variable, variables};
pub(crate) use scripts::is_script;
pub use servers::{Era, Isolation, Reach, Server, Transport, Web};
pub use settings::{Fault, Faults, units};
pub use state::State;
pub use tools::{ToolRule, UnknownFields};
pub use trust::Anchors;
pub(crate) use trust::in_file as keys_in_file;

#[cfg(test)]
mod tests;
