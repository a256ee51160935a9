//! The README, typed as it stands, command by command, by somebody with a fresh home directory.

use crate::support::environment::repository;
use crate::support::walk::{Walk, blocks};

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_readme_works() {
    let page = std::fs::read_to_string(repository().join("README.md")).unwrap();
    let [mcp, admin] = two_free_ports();
    let walk = Walk::through(blocks(&page))
        // The binary under test comes first on the path already; `make run` is another test.
        .replacing(
            "export CHECKOUT=$PWD PATH=$PWD/target/release:$PATH",
            &format!("export CHECKOUT={}", repository().display()),
        )
        // Tests run side by side, and so may gateways.
        .replacing("8443", &mcp.to_string())
        .replacing("8444", &admin.to_string());
    walk.run();
    let token = std::fs::metadata(walk.path(".portreeve-token")).unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(token.permissions().mode() & 0o777, 0o600);
}

/// Two ports that nobody listens on now.
fn two_free_ports() -> [u16; 2] {
    let bind = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    [bind(), bind()].map(|held| held.local_addr().unwrap().port())
}
