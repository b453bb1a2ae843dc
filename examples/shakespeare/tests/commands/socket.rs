//! R70 and R72: which users reach the control plane, and how their commands are recorded.

use std::{
    fs,
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        process::CommandExt,
    },
    path::Path,
    process::Command,
};

use testbed::testing::{Background, Shell};

use crate::{PROGRAM, a_manifest_that_bakes_fast, me, shell};

#[test]
fn r72_control_plane_is_reached_only_through_a_socket_of_its_user() {
    let town = shell();
    let (plane, mut lines) = town.run();
    let plane = Background(plane);
    assert!(lines.any(|line| line == "production matches shakespeare@1"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let socket = town.state().join("control.sock");
    assert!(fs::metadata(&socket).unwrap().file_type().is_socket());
    assert_eq!((mode(&town.state()), mode(&socket)), (0o700, 0o600));
    let pid = plane.0.id();
    assert_eq!(tcp_listeners(pid), 0, "it must not listen on TCP");
    other_users_are_refused(&town, &socket);

    drop(plane);
    assert!(socket.exists(), "left behind by kill -9");
    let said = town.say(&["status"]);
    assert!(
        !said.good && said.text.contains("no control plane is running"),
        "{}",
        said.text
    );
    let (plane, lines) = town.run();
    let _plane = Background(plane);
    let reader = std::thread::spawn(move || lines.count());
    town.until(&["status"]);
    town.does(&["down"]);
    reader.join().unwrap();
}

/// Returns the number of TCP sockets on which a process listens.
fn tcp_listeners(pid: u32) -> usize {
    let mut listening: Vec<String> = Vec::new();
    for table in ["tcp", "tcp6"] {
        let table = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        let rows = table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        let listens = rows.filter(|row| row.get(3) == Some(&"0A"));
        listening.extend(listens.map(|row| format!("socket:[{}]", row[9])));
    }
    let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let targets = files.filter_map(|file| fs::read_link(file.path()).ok());
    targets
        .filter(|target| listening.iter().any(|it| Path::new(it) == target))
        .count()
}

/// Even if all file modes allow it, a process of another user gets no answer. Only root can run this part of the test.
fn other_users_are_refused(town: &Shell, socket: &Path) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    open(town.dir.path(), 0o755).unwrap();
    open(&town.state(), 0o755).unwrap();
    open(socket, 0o666).unwrap();
    let program = town.dir.path().join("shakespeare");
    fs::copy(PROGRAM, &program).unwrap();
    for arguments in [&["status"][..], &["pause"], &["down"]] {
        let mut command = Command::new(&program);
        command.uid(65_534).gid(65_534).current_dir("/");
        let said = command
            .arg("--state")
            .arg(town.state())
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8([said.stdout, said.stderr].concat()).unwrap();
        assert!(
            !said.status.success() && text.contains("uid 65534"),
            "{arguments:?}: {text}"
        );
    }
    open(socket, 0o600).unwrap();
    open(&town.state(), 0o700).unwrap();
    let status = town.say(&["status"]);
    assert!(status.good, "{}", status.text);
}

#[test]
fn r70_command_is_recorded_with_the_user_of_the_process_and_the_given_name() {
    let town = shell();
    let (manifest, fast) = a_manifest_that_bakes_fast(&town);
    let (plane, mut lines) = town.run();
    let _plane = Background(plane);
    assert!(lines.any(|line| line == "production matches shakespeare@1"));
    let reader = std::thread::spawn(move || lines.count());
    let me = me();
    town.does(&["pause", "job/eu", "--who", "jane", "--why", "lunch"]);
    fs::write(&manifest, fast.replacen("replicas: 2", "replicas: 3", 1)).unwrap();
    town.sees(&["explain", "job/eu"], &format!("{me} as jane: lunch"));
    town.until(&["rollout", "pause", "--why", "tea"]);
    town.sees(&["rollout", "status", "--once"], &format!("{me}: tea)"));
    town.does(&["down"]);
    reader.join().unwrap();
}
