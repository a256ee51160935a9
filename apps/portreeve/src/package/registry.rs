//! Which registry an installer talks to, and what it is told of the operator's environment: the registry's address and
//! the certificates to trust, and nothing else. Files such as `~/.npmrc` and `pip.conf` are not read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use vocabulary::Secret;

use super::spec::Registry;

/// What an installer is told.
pub(super) struct Settings {
    /// Hosts and ports it may reach.
    pub(super) hosts: Vec<String>,
    /// Its variables, beside those of every sandbox.
    pub(super) env: BTreeMap<String, Secret>,
    /// Certificates that lie where a sandbox does not look.
    pub(super) read: Vec<PathBuf>,
}

/// Gathers the settings; `variable` looks into the operator's environment.
pub(super) fn settings(
    registry: Registry,
    dir: &Path,
    variable: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<Settings> {
    let (address, usual): (&[&str], &[&str]) = match registry {
        Registry::Npm => (
            &["npm_config_registry", "NPM_CONFIG_REGISTRY"],
            &["registry.npmjs.org:443"],
        ),
        Registry::Pypi => (&["PIP_INDEX_URL"], &["pypi.org:443", "files.pythonhosted.org:443"]),
    };
    let named = address.iter().find_map(|name| Some((*name, variable(name)?)));
    let hosts = match &named {
        Some((name, url)) => vec![host(url).with_context(|| format!("{name} is not an `https://` address"))?],
        None => usual.iter().map(|host| (*host).to_owned()).collect(),
    };
    let files: Vec<(&str, String)> = certificates(registry)
        .iter()
        .filter_map(|name| Some((*name, variable(name)?)))
        .collect();
    let read = files.iter().map(|(_, path)| PathBuf::from(path));
    let read = read.filter(|path| !shown_anyway(path)).collect();
    let mut env: BTreeMap<String, Secret> = own(registry, dir);
    let passed = files.into_iter().chain(named);
    env.extend(passed.map(|(name, value)| (name.to_owned(), Secret::new(value))));
    Ok(Settings { hosts, env, read })
}

/// Host and port of an address; a user and a password in it are left to the installer.
fn host(url: &str) -> Option<String> {
    let url: http::Uri = url.parse().ok()?;
    let host = url.host().filter(|_| url.scheme_str() == Some("https"))?;
    Some(format!("{host}:{}", url.port_u16().unwrap_or(443)))
}

/// Variables that name certificates.
fn certificates(registry: Registry) -> &'static [&'static str] {
    match registry {
        Registry::Npm => &["NODE_EXTRA_CA_CERTS", "npm_config_cafile", "NPM_CONFIG_CAFILE"],
        Registry::Pypi => &["PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"],
    }
}

/// What an installer needs to leave nothing outside its directory.
fn own(registry: Registry, dir: &Path) -> BTreeMap<String, Secret> {
    let below = |name: &str| dir.join(name).display().to_string();
    let mut env = vec![("HOME", below(HOME)), ("TMPDIR", below(HOME))];
    match registry {
        Registry::Npm => env.extend([
            ("npm_config_cache", below(HOME)),
            ("npm_config_update_notifier", "false".to_owned()),
        ]),
        Registry::Pypi => env.extend([
            ("PIP_CONFIG_FILE", "/dev/null".to_owned()),
            ("PIP_DEFAULT_TIMEOUT", "60".to_owned()),
        ]),
    }
    env.into_iter()
        .map(|(name, value)| (name.to_owned(), Secret::new(value)))
        .collect()
}

/// Every sandbox shows these.
fn shown_anyway(path: &Path) -> bool {
    ["/usr", "/etc/ssl", "/etc/pki", "/etc/ca-certificates"]
        .iter()
        .any(|shown| path.starts_with(shown))
}

/// The installer's home and scratch directory, below the package's; taken away when it is done.
pub(super) const HOME: &str = ".installer";

#[cfg(test)]
mod tests {
    use super::*;

    fn with(registry: Registry, variables: &[(&str, &str)]) -> anyhow::Result<Settings> {
        let variables: BTreeMap<String, String> = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        settings(registry, Path::new("/state/packages/x"), |name| {
            variables.get(name).cloned()
        })
    }

    #[test]
    fn only_the_registry_and_its_certificates_are_passed_on() {
        let settings = with(
            Registry::Pypi,
            &[
                ("PIP_INDEX_URL", "https://user:word@mirror.example:8443/simple"),
                ("PIP_CERT", "/opt/roots.pem"),
                ("SSL_CERT_FILE", "/etc/ssl/certs/all.pem"),
                ("PIP_EXTRA_INDEX_URL", "https://evil.example"),
                ("AWS_SECRET_ACCESS_KEY", "x"),
            ],
        )
        .unwrap();
        assert_eq!(settings.hosts, ["mirror.example:8443"]);
        assert_eq!(settings.read, [PathBuf::from("/opt/roots.pem")]);
        let names: Vec<&str> = settings.env.keys().map(String::as_str).collect();
        let expected = [
            "HOME",
            "PIP_CERT",
            "PIP_CONFIG_FILE",
            "PIP_DEFAULT_TIMEOUT",
            "PIP_INDEX_URL",
            "SSL_CERT_FILE",
            "TMPDIR",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn without_settings_the_public_registry_is_asked() {
        assert_eq!(with(Registry::Npm, &[]).unwrap().hosts, ["registry.npmjs.org:443"]);
    }

    #[test]
    fn a_registry_is_reached_encrypted_or_not_at_all() {
        for url in ["http://mirror.example/", "mirror.example", "file:///srv/npm"] {
            assert!(with(Registry::Npm, &[("npm_config_registry", url)]).is_err(), "{url}");
        }
    }
}
