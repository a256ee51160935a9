//! Everything a runtime can leave where its output should be.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use ledger::AttemptClass;
use rustix::fs::{CWD, FileType, mknodat};

use super::*;

struct Desk {
    home: tempfile::TempDir,
    place: OutputPlace,
}

impl Desk {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("out")).unwrap();
        fs::write(home.path().join("host"), "{\"secret\":\"of the host\"}").unwrap();
        let place = OutputPlace::hold(&home.path().join("out")).unwrap();
        Self { home, place }
    }

    fn path(&self) -> std::path::PathBuf {
        self.home.path().join("out/result.json")
    }

    fn take(&self) -> Result<Vec<u8>, Refusal> {
        self.place.take("result.json", 64).map(|raw| raw.bytes().to_vec())
    }

    fn guard(&self) -> Option<Guard> {
        self.take().unwrap_err().guard
    }
}

// R234
#[test]
fn a_regular_file_is_read_once_and_as_it_is() {
    let desk = Desk::new();
    fs::write(desk.path(), "{} ").unwrap();
    assert_eq!(desk.take().unwrap(), b"{} ");
}

// R237
#[test]
fn links_pipes_devices_and_directories_are_not_output() {
    let desk = Desk::new();
    let outside = desk.home.path().join("host");
    for make in [
        &|path: &Path| symlink(&outside, path).unwrap() as _,
        &|path: &Path| symlink("../host", path).unwrap(),
        &|path: &Path| symlink("/dev/zero", path).unwrap(),
        &|path: &Path| symlink("/proc/self/environ", path).unwrap(),
        &|path: &Path| fs::create_dir(path).unwrap(),
        &|path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap(),
        &|path: &Path| drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
    ] as [&dyn Fn(&Path); 7]
    {
        make(&desk.path());
        assert_eq!(desk.guard(), Some(Guard::NotARegularFile));
        let _ = fs::remove_file(desk.path());
        let _ = fs::remove_dir(desk.path());
    }
    // A device, where whoever runs the tests can make one.
    if mknodat(
        CWD,
        desk.path(),
        FileType::CharacterDevice,
        Mode::from_raw_mode(0o666),
        0x105,
    )
    .is_ok()
    {
        assert_eq!(desk.guard(), Some(Guard::NotARegularFile));
    }
}

// R237
#[test]
fn a_second_name_for_a_file_of_the_host_is_not_output() {
    let desk = Desk::new();
    fs::hard_link(desk.home.path().join("host"), desk.path()).unwrap();
    assert_eq!(desk.guard(), Some(Guard::Linked));
}

#[test]
fn a_large_file_is_not_read_at_all() {
    let desk = Desk::new();
    let file = File::create(desk.path()).unwrap();
    file.set_len(1 << 40).unwrap();
    assert_eq!(desk.guard(), Some(Guard::Size));
    file.set_len(65).unwrap();
    assert_eq!(desk.guard(), Some(Guard::Size));
    file.set_len(64).unwrap();
    assert_eq!(desk.take().unwrap().len(), 64);
}

#[test]
fn nothing_and_an_empty_file_are_no_output_and_another_name_is_not_tried() {
    let desk = Desk::new();
    fs::write(desk.home.path().join("out/output.json"), "{}").unwrap();
    assert_eq!(desk.take().unwrap_err().class, AttemptClass::NoOutput);
    fs::write(desk.path(), "").unwrap();
    assert_eq!(desk.take().unwrap_err().class, AttemptClass::NoOutput);
}

#[test]
fn a_file_nobody_may_read_is_a_broken_guard_and_no_panic() {
    let desk = Desk::new();
    fs::write(desk.path(), "{}").unwrap();
    fs::set_permissions(desk.path(), fs::Permissions::from_mode(0o000)).unwrap();
    let refused = desk.take().err().map(|refusal| refusal.guard);
    // Root may read it all the same.
    match rustix::process::geteuid().is_root() {
        true => assert_eq!(refused, None),
        false => assert_eq!(refused, Some(Some(Guard::Unreadable))),
    }
}

// R237
#[test]
fn the_directory_is_the_one_that_was_made_whatever_is_put_in_its_place() {
    let desk = Desk::new();
    let out = desk.home.path().join("out");
    fs::write(desk.path(), "{\"mine\":1}").unwrap();
    fs::rename(&out, desk.home.path().join("moved")).unwrap();
    fs::create_dir(&out).unwrap();
    fs::write(desk.path(), "{\"planted\":1}").unwrap();
    assert_eq!(desk.take().unwrap(), b"{\"mine\":1}");
    assert!(OutputPlace::hold(&desk.home.path().join("nowhere")).is_err());
}

#[test]
fn a_file_of_the_command_line_is_judged_by_the_same_rules() {
    let desk = Desk::new();
    assert!(take_file(&desk.home.path().join("host"), 64).is_ok());
    symlink(desk.home.path().join("host"), desk.path()).unwrap();
    assert_eq!(
        take_file(&desk.path(), 64).unwrap_err().guard,
        Some(Guard::NotARegularFile)
    );
    assert_eq!(
        take_file(Path::new("/dev/zero"), 64).unwrap_err().guard,
        Some(Guard::NotARegularFile)
    );
    assert_eq!(
        take_file(&desk.home.path().join("host"), 3).unwrap_err().guard,
        Some(Guard::Size)
    );
}

#[test]
fn only_a_directory_itself_is_a_place_for_output() {
    let desk = Desk::new();
    let home = desk.home.path();
    symlink(home.join("out"), home.join("link")).unwrap();
    for other in ["host", "link", "none"] {
        assert!(OutputPlace::hold(&home.join(other)).is_err(), "{other}");
    }
    let flags = rustix::io::fcntl_getfd(&desk.place.0).unwrap();
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "no runtime inherits it");
}

#[test]
fn no_way_around_leads_to_an_output() {
    let desk = Desk::new();
    let home = desk.home.path();
    fs::create_dir(home.join("out/inner")).unwrap();
    fs::write(home.join("out/inner/result.json"), "{}").unwrap();
    symlink("inner", home.join("out/link")).unwrap();
    let taken = |name: &str| desk.place.take(name, 64).map(|raw| raw.bytes().to_vec());
    assert_eq!(taken("inner/result.json").unwrap(), b"{}");
    for around in ["link/result.json", "../host", "inner/../../host"] {
        assert_eq!(
            taken(around).unwrap_err().guard,
            Some(Guard::NotARegularFile),
            "{around}"
        );
    }
    // Another file system, where one is mounted.
    let root = OutputPlace::hold(Path::new("/")).unwrap();
    let mounted = root.take("proc/version", 4096).map(|raw| raw.bytes().to_vec());
    assert_eq!(mounted.unwrap_err().guard, Some(Guard::NotARegularFile));
    // A link is refused by the way the file is opened, also where links on the way are not.
    symlink("inner/result.json", desk.path()).unwrap();
    let opened = take_below(desk.place.0.as_fd(), "result.json", ResolveFlags::NO_MAGICLINKS, 64);
    assert_eq!(opened.unwrap_err().guard, Some(Guard::NotARegularFile));
}

#[test]
fn what_is_raw_is_told_by_its_digest_alone() {
    let raw = RawOutput::new(b"{\"secret\":1}".to_vec());
    let told = format!("{raw:?}");
    assert!(told.contains(&format!("{:?}", raw.hash())), "{told}");
    assert!(!told.contains("secret"), "{told}");
}

#[test]
fn a_file_that_says_it_is_empty_is_read_no_further_than_it_may() {
    // As long as it is, whatever it said: one that grows meanwhile is the same.
    let version = Path::new("/proc/version");
    let whole = take_file(version, 4096).unwrap().bytes().len();
    assert_eq!(take_file(version, whole).unwrap().bytes().len(), whole);
    assert_eq!(take_file(version, whole - 1).unwrap_err().guard, Some(Guard::Size));
}
