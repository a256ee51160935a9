//! The keys of servers that are started here, and of all their sandboxes.

use settings::Standing::{Default, Derived, Optional};
use settings::{Key, key};

pub(super) const KEYS: &[Key] = &[
    key(
        "sandbox.tier",
        "The weakest walls that are used: `A`, `B` or `C`. With less, no server and no agent is started.",
        Derived(
            "what was found at the first start on this state directory",
            "a machine that suddenly gives less is looked at first",
        ),
    ),
    key(
        "sandbox.uids",
        "Users that servers run under if the gateway is root, one for each workspace: `FIRST-LAST`.",
        Default(
            r#""1900000000-1900065535""#,
            "above what distributions, containers and systemd hand out",
        ),
    ),
    key(
        "servers.*.sandbox.fs",
        "`workspace_only`: writes in the workspace alone; `read_only`: no lasting write; `none`: not confined.",
        Default(
            r#""workspace_only""#,
            "a server can spoil what it was given, and nothing else",
        ),
    ),
    key(
        "servers.*.sandbox.tier",
        "The weakest walls this server may be started in: `A`, `B` or `C`; `sandbox.tier` holds as well.",
        Optional,
    ),
    key(
        "servers.*.sandbox.net",
        "`block_all`: nothing; `allowlist`: what `allow` names; `none`: not confined.",
        Default(r#""block_all""#, "most servers need no network"),
    ),
    key(
        "servers.*.sandbox.workspace",
        "The server's directory, at the same path inside. `{principal}` becomes a digest of the principal.",
        Derived("`workspaces/ID` in the state directory", "made at first start"),
    ),
    key(
        "servers.*.sandbox.read",
        "Further paths that may be read. What lies under `/usr` can be read anyway.",
        Default("[]", "what is not named is not there"),
    ),
    key(
        "servers.*.sandbox.allow",
        "Hosts that may be reached with `allowlist`: `\"api.example.org\"` (port 443), `\"*.example.org:8443\"`, `\"db.internal:5432\"`.",
        Default("[]", "nothing"),
    ),
    key(
        "servers.*.sandbox.private",
        "Ranges that are not public, into which allowed names may resolve: `[\"10.20.0.0/16\"]`.",
        Default("[]", "a name must not lead into the own network"),
    ),
    key(
        "servers.*.sandbox.unix_sockets",
        "Unix sockets in the workspace and in `/tmp`, as Chromium needs; those of others in `workspace` and `read` can then be talked to.",
        Derived(
            "`true` with the default workspace and no `read` but packages",
            "nothing of others is shown there",
        ),
    ),
    key(
        "servers.*.sandbox.inotify",
        "Whether it may be told of changes to files. It is then told what others do in `/usr` and in `read` as well.",
        Default(
            "false",
            "one server must not see what another opens; programs look for themselves",
        ),
    ),
    key(
        "servers.*.sandbox.env",
        "Variables: `{ API_KEY = \"env:NAME\" }`, `\"file:PATH\"`, or `\"text:VALUE\"` for what is no secret; `{workspace}` in that becomes the workspace's path.",
        Optional,
    ),
    key(
        "servers.*.sandbox.limits.memory",
        "Memory of the server and all it starts, socket buffers included; where there is no control group, the gateway counts it every 200 ms.",
        Default(r#""1GiB""#, "node and Python need a few hundred MiB"),
    ),
    key(
        "servers.*.sandbox.limits.processes",
        "Processes and threads of the server.",
        Default("256", "node starts a dozen threads; a fork bomb ends here"),
    ),
    key(
        "servers.*.sandbox.limits.cpu_seconds",
        "Processor time of the server and all it starts, after which it is ended.",
        Optional,
    ),
    key(
        "servers.*.sandbox.limits.workspace",
        "Bytes in the workspace, with more of which the server is ended.",
        Derived(
            "`4GiB` in a workspace of the gateway's own, no limit in one of yours",
            "one server must not fill the disk for all; what you keep is yours to judge",
        ),
    ),
    key(
        "servers.*.sandbox.limits.files",
        "Files, directories and links in the workspace, with more of which the server is ended.",
        Derived(
            "`200000` in a workspace of the gateway's own, no limit in one of yours",
            "a file system has so many and no more",
        ),
    ),
];
