//! `server.json`: what an official registry says of a server. It is a stranger's word: it names what is to be fetched, and
//! everything that can be compared is.

mod document;
mod fetch;

use http::Uri;

use crate::config::{NewReach, is_web_url};
use crate::package::{Registry, Spec};
use document::{Argument, Document, Package, Remote};

pub(crate) use fetch::fetch;

/// A server as a registry names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Listing {
    /// Its name there: a reversed domain, a slash, a name.
    pub(crate) name: String,
    /// How it is had.
    pub(crate) offer: Offer,
}

/// How a server is had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Offer {
    /// A package is installed.
    Package(PackageOffer),
    /// It is reached at an address.
    Remote(NewReach),
}

/// A package that a registry names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PackageOffer {
    /// Which one.
    pub(crate) spec: Spec,
    /// The SHA-256 digest its file must have, in hexadecimal.
    pub(crate) sha256: Option<String>,
    /// What its program is called with.
    pub(crate) arguments: Vec<String>,
    /// Whether it needs arguments that only the operator can name.
    pub(crate) lacks_arguments: bool,
    /// Variables that it needs.
    pub(crate) variables: Vec<String>,
}

/// Why a document is not taken. Nothing of it is repeated but what was seen to be plain.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(String);

fn refused(why: impl Into<String>) -> Refused {
    Refused(why.into())
}

impl Listing {
    /// Reads a document and takes the first offer that can be used here: a package before an address.
    pub(crate) fn read(text: &[u8]) -> Result<Self, Refused> {
        let document = Document::parse(text).map_err(refused)?;
        let name = document.name.as_deref().filter(|name| is_name(name));
        let name = name.ok_or_else(|| refused("has no `name` of the form `com.example/server`"))?;
        let mut reasons = Vec::new();
        for package in document.packages.iter().flatten() {
            match usable(package) {
                Ok(()) => {
                    let offer = Offer::Package(package_offer(package)?);
                    return Ok(Self {
                        name: name.to_owned(),
                        offer,
                    });
                }
                Err(why) => reasons.push(why),
            }
        }
        if let Some(remote) = document.remotes.iter().flatten().next() {
            let offer = Offer::Remote(remote_offer(remote, name)?);
            return Ok(Self {
                name: name.to_owned(),
                offer,
            });
        }
        match reasons.first() {
            None => Err(refused("names neither a package nor a remote server")),
            Some(why) => Err(refused(format!("names no package that can be used here: {why}"))),
        }
    }
}

/// `^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`, as the registry has it.
fn is_name(name: &str) -> bool {
    let plain = |text: &str, more: &[char]| {
        !text.is_empty()
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-') || more.contains(&c))
    };
    let parts = name.split_once('/').filter(|_| name.len() <= 200);
    parts.is_some_and(|(namespace, server)| plain(namespace, &[]) && plain(server, &['_']))
}

/// Whether a package is of a kind that can be installed here.
fn usable(package: &Package) -> Result<(), &'static str> {
    match (package.registry_type.as_deref(), package.transport()) {
        (Some("npm" | "pypi"), Some("stdio")) => Ok(()),
        (Some("npm" | "pypi"), _) => Err("its transport is not `stdio`"),
        (Some("oci" | "mcpb" | "nuget" | "cargo"), _) => {
            Err("packages of this kind are not installed; npm and pypi are")
        }
        (Some(_) | None, _) => Err("its `registryType` is not known; npm and pypi are"),
    }
}

fn package_offer(package: &Package) -> Result<PackageOffer, Refused> {
    let (registry, base) = match package.registry_type.as_deref() {
        Some("npm") => (Registry::Npm, "https://registry.npmjs.org"),
        _ => (Registry::Pypi, "https://pypi.org"),
    };
    let elsewhere = |url: &str| url.trim_end_matches('/') != base;
    if package.registry_base_url.as_deref().is_some_and(elsewhere) {
        return Err(refused(format!("its package comes from another registry than {base}")));
    }
    let (identifier, version) = (package.identifier.as_deref(), package.version.as_deref());
    let text = format!(
        "{}:{}@{}",
        registry.as_str(),
        identifier.unwrap_or_default(),
        version.unwrap_or_default()
    );
    let spec = match Spec::parse(&text) {
        Some(Ok(spec)) => spec,
        Some(Err(fault)) => return Err(refused(format!("its package {fault}"))),
        None => return Err(refused("its package has no name")),
    };
    let sha256 = package.file_sha256.clone();
    let is_digest = |text: &String| text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if sha256.as_ref().is_some_and(|text| !is_digest(text)) {
        return Err(refused("its `fileSha256` is not 64 lower-case hexadecimal digits"));
    }
    let arguments = package.package_arguments.as_deref().unwrap_or_default();
    Ok(PackageOffer {
        spec,
        sha256,
        lacks_arguments: arguments.iter().any(Argument::is_lacking),
        arguments: arguments.iter().flat_map(Argument::words).collect(),
        variables: variables(package)?,
    })
}

/// The variables that must be given.
fn variables(package: &Package) -> Result<Vec<String>, Refused> {
    let all = package.environment_variables.iter().flatten();
    let needed = all.filter(|variable| variable.is_required == Some(true));
    let named = needed.map(|variable| {
        let plain = |name: &&String| {
            !name.is_empty() && name.len() <= 128 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        let name = variable.name.as_ref().filter(plain);
        name.cloned()
            .ok_or_else(|| refused("a variable that its package needs has no name that can be one"))
    });
    named.collect()
}

fn remote_offer(remote: &Remote, name: &str) -> Result<NewReach, Refused> {
    let url = remote.url.as_deref().unwrap_or_default();
    if url.contains(['{', '}']) {
        return Err(refused(
            "its address is a template; fill it in and add the server by its address",
        ));
    }
    is_web_url(url).map_err(|why| refused(format!("its address {why}")))?;
    let uri: Option<Uri> = url.parse().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
    let domain = domain_of(name)?;
    if !lies_under(host, &domain) {
        return Err(refused(format!(
            "its address is foreign: the name {name} stands for hosts under {domain}, and its host is none of them"
        )));
    }
    match remote.kind.as_deref() {
        Some("streamable-http") => Ok(NewReach::Url(url.to_owned())),
        Some("sse") => Ok(NewReach::Sse(url.to_owned())),
        Some(_) | None => Err(refused("its transport is neither `streamable-http` nor `sse`")),
    }
}

/// The domain whose holder the namespace belongs to: `com.example` is that of `example.com`.
fn domain_of(name: &str) -> Result<String, Refused> {
    let namespace = name.split('/').next().unwrap_or_default().to_ascii_lowercase();
    let labels: Vec<&str> = namespace.split('.').rev().collect();
    let whole = labels.iter().all(|label| !label.is_empty());
    match whole && (labels.len() > 1 || namespace == "localhost") {
        true => Ok(labels.join(".")),
        false => Err(refused("its namespace is not a reversed domain such as `com.example`")),
    }
}

fn lies_under(host: &str, domain: &str) -> bool {
    let host = host.to_ascii_lowercase();
    host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

#[cfg(test)]
mod tests;
