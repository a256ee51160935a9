//! `[servers.*]`: the MCP servers behind the gateway, and what the operator says of them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use http::Uri;
use policy::ServerIdentity;
use rustls_pki_types::CertificateDer;
use settings::{Complaint, Entry, Section};
use vocabulary::{ServerId, ToolName, Trust, nearest};

use super::credential::Credential;
use super::listen::{bare_host, certificates};
use super::locked::{self, Place};
use super::process::{Process, warn_of_sharing};
use super::raw::Surroundings;
use super::state::State;
use super::tools::{self, ToolRule};
use super::trust::Anchors;
use crate::servers_lock;

/// A server behind the gateway.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    /// How it is reached.
    pub reach: Reach,
    /// By what it is known again.
    pub identity: ServerIdentity,
    /// Which era of the protocol it speaks.
    pub era: Era,
    /// What callers share.
    pub isolation: Isolation,
    /// How far the operator trusts it.
    pub trust: Trust,
    /// What it is shown.
    pub credential: Credential,
    /// The operator's word on single tools.
    pub tools: BTreeMap<ToolName, ToolRule>,
    /// Methods beyond MCP that are let through, decided like the others.
    pub extension_methods: Vec<String>,
    /// Why it is not started although it is configured: nobody stands for it. `None`: it is.
    pub barred: Option<String>,
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Over the network.
    Web(Web),
    /// It is started here.
    Process(Process),
}

impl Reach {
    /// Its address or its command, for people.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Web(web) => web.url.to_string(),
            Self::Process(process) => process.command.join(" "),
        }
    }
}

/// Where a server is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Web {
    /// Its address: `https`, or `http` on loopback; no user, no fragment.
    pub url: Uri,
    /// How messages travel.
    pub transport: Transport,
    /// Further trust roots, for this server alone.
    pub ca: Vec<CertificateDer<'static>>,
    /// A name that its certificate must be good for, beside its host.
    pub certificate_name: Option<String>,
}

impl Web {
    fn check(section: &mut Section<'_>, around: &Surroundings) -> Option<Self> {
        let url = section.require("url", |value| web_url(value.text()?));
        let transport = section.read("transport", |value| value.word(Transport::ALL, Transport::as_str));
        let ca = section
            .read("ca", |value| certificates(value, around))
            .unwrap_or_default();
        let named = section.has("certificate_name");
        let certificate_name = section.read("certificate_name", |value| match &url {
            Some(url) if url.scheme_str() != Some("https") => Err(Complaint::new("needs an `https://` address")),
            Some(_) | None => certificate_name(value.text()?),
        });
        Some(Self {
            url: url?,
            transport: transport?,
            ca,
            certificate_name: match named {
                true => Some(certificate_name?),
                false => None,
            },
        })
    }
}

fn certificate_name(text: &str) -> Result<String, Complaint> {
    match rustls_pki_types::ServerName::try_from(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(Complaint::new("is not a name that a certificate can hold").hint("write a host name")),
    }
}

vocabulary::words! {
    /// Which era of the protocol a server speaks.
    pub enum Era {
        /// Found by asking.
        Auto = "auto",
        /// With sessions.
        Legacy = "legacy",
        /// Stateless.
        Modern = "modern",
    }
}

vocabulary::words! {
    /// How messages travel to a server.
    pub enum Transport {
        /// Streamable HTTP.
        Http = "http",
        /// HTTP+SSE of 2024-11-05.
        Sse = "sse",
    }
}

vocabulary::words! {
    /// What the callers of a server share.
    pub enum Isolation {
        /// Nothing.
        PerPrincipal = "per_principal",
        /// Its session; for servers without per-user state.
        Shared = "shared",
    }
}

pub(super) fn check(
    root: &mut Section<'_>,
    (state, anchors): (Option<&State>, Option<&Anchors>),
    around: &Surroundings,
) -> BTreeMap<ServerId, Server> {
    let mut servers = BTreeMap::new();
    let (lock, signed) = locked::read(root, (state, anchors), around);
    for (name, section) in root.named_sections("servers") {
        let id = ServerId::parse(&name)
            .map_err(|fault| section.fault_here(Complaint::new(fault.to_string())))
            .ok();
        let place = id.as_ref().zip(state).map(|(id, state)| Place {
            id,
            state: &state.dir,
            lock: &lock,
            signed: &signed,
        });
        if let (Some(server), Some(id)) = (Server::check(section, place, around), id) {
            servers.insert(id, server);
        }
    }
    servers
}

impl Server {
    fn check(mut section: Section<'_>, place: Option<Place<'_>>, around: &Surroundings) -> Option<Self> {
        let mut reach = Reach::check(&mut section, around);
        let era = section.read("era", |value| value.word(Era::ALL, Era::as_str));
        let extension_methods = section.read("extension_methods", |value| value.distinct(extension_method));
        let isolation = section.read("isolation", |value| value.word(Isolation::ALL, Isolation::as_str));
        let trust = section.read("trust", |value| value.word(Trust::ALL, Trust::as_str));
        let credential = section.entry("credential").and_then(|entry| {
            let url = match &reach {
                Some(Reach::Web(web)) => Some(&web.url),
                Some(Reach::Process(_)) | None => None,
            };
            Credential::check(entry, url, around)
        });
        let tools = tools::check(&mut section, reach.as_ref());
        if let Some(Reach::Process(process)) = &mut reach {
            if let Some(Place {
                id,
                state,
                lock,
                signed,
            }) = &place
            {
                process.match_lock((id, state), (lock, signed), &section);
                process.try_out(id, state, &section);
            }
            if isolation == Some(Isolation::PerPrincipal) {
                warn_of_sharing(process, &section);
            }
            if matches!(
                credential,
                Some(Credential::Reference { .. } | Credential::Granted(_) | Credential::Certificate { .. })
            ) {
                let complaint = Complaint::new("a process has no header for a credential");
                section.fault("credential", complaint.hint("hand the secret over in `sandbox.env`"));
            }
        }
        let placed = reach.as_ref().zip(place);
        let identity = placed
            .as_ref()
            .map(|(reach, place)| servers_lock::identity(place.id, reach, place.state));
        let barred = placed.and_then(|(reach, place)| place.stranger(reach));
        if let Some(why) = &barred {
            let hint = "look at what it is now, then sign: `portreeve server sign --key FILE`";
            section.obstacle_here(Complaint::new(format!("{}{why}", locked::NOT_STARTED)).hint(hint));
        }
        section.finish();
        let reach = reach?;
        Some(Self {
            identity: identity?,
            reach,
            era: era?,
            isolation: isolation?,
            trust: trust?,
            credential: credential?,
            tools,
            extension_methods: extension_methods?,
            barred,
        })
    }
}

impl Reach {
    fn check(section: &mut Section<'_>, around: &Surroundings) -> Option<Self> {
        match (section.has("url"), section.has("command")) {
            (true, true) => {
                section.fault_here(Complaint::new("has both `url` and `command`").hint("keep the one that is meant"));
                None
            }
            (false, false) => {
                let complaint = Complaint::new("has neither `url` nor `command`");
                section.fault_here(complaint.hint("write `url = \"https://…\"` or `command = [\"program\", …]`"));
                None
            }
            (true, false) => Web::check(section, around).map(Self::Web),
            (false, true) => Process::check(section, around).map(Self::Process),
        }
    }
}

/// A method that MCP does not know; those it knows are decided by their own rules.
fn extension_method(entry: &Entry<'_>) -> Result<String, Complaint> {
    let name = entry.text()?;
    let plain = !name.is_empty() && name.len() <= 128 && name.bytes().all(|byte| byte.is_ascii_graphic());
    if !plain || !name.contains('/') {
        return Err(Complaint::new("is not the name of a method").hint("write a name like `vendor/method`"));
    }
    if matches!(mcp::Method::parse(name), mcp::Method::Other(_)) && !name.starts_with("notifications/") {
        Ok(name.to_owned())
    } else {
        Err(Complaint::new("names a method of MCP itself").hint("leave it out: it is spoken already"))
    }
}

/// An absolute `https://` address, or `http://` on loopback; no user, no fragment. The text is never
/// repeated in a complaint: it may hold a password.
pub(super) fn web_url(text: &str) -> Result<Uri, Complaint> {
    let wrong = |message: &str| Complaint::new(message).hint("write `https://host[:port]/path`");
    if text.contains(['#', ' ']) {
        return Err(wrong("has a fragment or a space"));
    }
    let url: Uri = text.parse().map_err(|_| wrong("is not a URL"))?;
    let authority = url.authority().ok_or_else(|| wrong("is not an absolute URL"))?;
    if authority.as_str().contains('@') {
        return Err(wrong("holds a user or a password").hint("name the secret in `credential`"));
    }
    match url.scheme_str() {
        Some("https") => Ok(url),
        Some("http") if is_loopback(authority.host()) => Ok(url),
        Some("http") => Err(wrong("`http://` is accepted for loopback only")),
        Some(other) => {
            let meant = nearest(other, ["http", "https"]).map_or("", |_| "; did you mean `https`?");
            Err(Complaint::new("is neither `https://` nor `http://`")
                .hint(format!("write `https://host[:port]/path`{meant}")))
        }
        None => Err(wrong("is not an absolute URL")),
    }
}

/// `localhost` or a loopback address, as it is written: no name is looked up.
fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || bare_host(host)
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}
