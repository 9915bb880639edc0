#if os(Linux)
  import Foundation
  import Testing

  extension EndToEnd {
    /// What tunneld is to a service manager: word of its state, watchdog, sockets passed, journal.
    @Suite(.serialized) struct UnderServiceManager {
      private func environment(_ notify: NotifySocket, _ mux: FakeMux, watchdog: Int? = nil) -> [String:
        String]
      {
        var variables = ["NOTIFY_SOCKET": notify.path, "USBMUXD_SOCKET_ADDRESS": mux.address]
        if let watchdog { variables["WATCHDOG_USEC"] = "\(watchdog)" }
        return variables
      }

      @Test func itTellsWhenItIsReadyAndWhenItStops() throws {
        let mux = try FakeMux()
        mux.attach(phone)
        let notify = try NotifySocket()
        let tunnel = try Tunnel(mux, [7], environment: environment(notify, mux))
        let port = try tunnel.port()
        let ready = try #require(notify.message("READY=1"))
        #expect(ready.contains("STATUS=") && ready.contains("1 forward: 127.0.0.1:\(port) -> 7"))
        #expect(notify.message("STATUS=1 phone: \(phone) (USB);") != nil)
        #expect(notify.messages.allSatisfy { !$0.contains("WATCHDOG") }, "nobody asked for pings")
        #expect(tunnel.threads == 1)
        #expect(tunnel.works())
        #expect(tunnel.stop() == .exited(0))
        #expect(notify.message("STOPPING=1") != nil)
      }

      @Test func theStatusFollowsThePhones() throws {
        let mux = try FakeMux()
        let notify = try NotifySocket()
        let tunnel = try Tunnel(mux, [7], environment: environment(notify, mux))
        #expect(try #require(notify.message("READY=1")).contains("STATUS=no phone;"))
        let first = mux.attach(phone)
        #expect(notify.message("STATUS=1 phone: \(phone) (USB);") != nil)
        mux.attach(otherPhone)
        #expect(notify.message("STATUS=2 phones: \(phone) (USB), \(otherPhone) (USB);") != nil)
        notify.forget()
        mux.detach(first)
        #expect(notify.message("STATUS=1 phone: \(otherPhone) (USB);") != nil)
        #expect(tunnel.isRunning)
      }

      @Test func aFailureIsTold() throws {
        let mux = try FakeMux()
        let notify = try NotifySocket()
        let taken = try Socket.listen(.loopback(0))
        defer { close(taken) }
        let port = Socket.localPort(taken)
        let tunnel = try Tunnel.run(
          ["--local", "127.0.0.1:\(port)", "--device-port", "7"], environment: environment(notify, mux))
        #expect(tunnel.exitStatus == .exited(1))
        #expect(try #require(notify.message("STATUS=")).contains("\(port)"))
        #expect(!notify.messages.contains { $0.contains("READY=1") })
      }

      /// Pings come twice in the time that systemd waits, and none from a loop that is stopped.
      @Test func aStoppedLoopMissesItsPings() throws {
        let mux = try FakeMux()
        mux.attach(phone)
        let notify = try NotifySocket()
        let tunnel = try Tunnel(mux, [7], environment: environment(notify, mux, watchdog: 400_000))
        #expect(eventually(within: 5) { notify.pings >= 5 })
        tunnel.signal(SIGSTOP)
        #expect(eventually(within: 5) { kernelFile("/proc/\(tunnel.pid)/stat")?.contains(") T ") == true })
        notify.forget()
        #expect(!tunnel.waitForLog(within: 1.5) { _ in false })
        #expect(notify.pings == 0)
        tunnel.signal(SIGCONT)
        #expect(eventually(within: 5) { notify.pings >= 3 })
        #expect(tunnel.works())
      }

      /// The second thread, which is there once a stream has become long, answers for the pings too.
      @Test func pingsGoOnWithABulkStream() throws {
        let mux = try FakeMux()
        mux.attach(phone)
        mux.setPort(20, .open(.send(64 * mebibyte)))
        let notify = try NotifySocket()
        let tunnel = try Tunnel(mux, [20], environment: environment(notify, mux, watchdog: 400_000))
        let client = try tunnel.client(20)
        #expect(client.receivePattern().count == 64 * mebibyte)
        notify.forget()
        #expect(eventually(within: 5) { notify.pings >= 3 })
      }

      // MARK: sockets

      @Test func aForwardTakesTheSocketsOfItsName() throws {
        let mux = try FakeMux()
        mux.attach(phone)
        let four = try Socket.listen(.loopback(0))
        let six = try Socket.listen(.loopback6(0))
        let other = try Socket.listen(.loopback(0))
        defer { [four, six, other].forEach { close($0) } }
        let port = Socket.localPort(four)
        // It waits in the queue while nobody is there yet.
        let early = try Client(port: port)
        let sockets = [(name: "forward-8100", socket: four), ("forward-8100", six), ("forward-9999", other)]
        let arguments = ["8100:7"]
        let variables = ["USBMUXD_SOCKET_ADDRESS": mux.address]
        let tunnel = try Tunnel(activatedWith: sockets, arguments: arguments, environment: variables)
        try tunnel.waitUntilReady([7], addresses: 2)
        #expect(tunnel.readyLines.map(\.endpoint) == [.loopback(port), .loopback6(Socket.localPort(six))])
        #expect(tunnel.logs("forward-9999", "no forward"))
        #expect(echoes(early))
        #expect(try echoes(Client(.loopback6(Socket.localPort(six)))))
        #expect(tunnel.stop() == .exited(0))
        // The listener outlives the process: nobody is refused meanwhile, and the next one serves them.
        let between = try Client(port: port)
        let next = try Tunnel(activatedWith: sockets, arguments: arguments, environment: variables)
        #expect(echoes(between))
        #expect(next.stop() == .exited(0))
      }

      @Test func programsAreServedOnAllSocketsOfThatName() throws {
        let directory = try temporaryDirectory()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let paths = [directory + "/usbmuxd", directory + "/mounted"]
        let sockets = try paths.map { try Socket.listen(.unix($0)) }
        let forward = try Socket.listen(.loopback(0))
        defer { (sockets + [forward]).forEach { close($0) } }
        let inode = { try FileManager.default.attributesOfItem(atPath: paths[1])[.systemFileNumber] as? Int }
        let before = try inode()
        for _ in 0..<2 {
          let tunnel = try Tunnel(
            activatedWith: [("usbmuxd", sockets[0]), ("forward-1", forward), ("usbmuxd", sockets[1])],
            arguments: ["--transport", "simulated", "1:8765"],
            environment: ["STATE_DIRECTORY": directory])
          #expect(tunnel.waitForOutput { $0.count { $0.contains("usbmuxd socket at") } == 2 })
          for path in paths {
            let list = try Tunnel.run(["devices", "--transport", "usbmuxd", "--usbmuxd", path])
            #expect(list.output.contains("00008110-000000C0FFEE0001"), "\(list.log)")
          }
          #expect(tunnel.stop() == .exited(0))
        }
        #expect(try inode() == before, "who has mounted the file still has the right one")
      }

      /// systemd's own tool for it, where it is installed: starts the program with the first connection.
      @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/systemd-socket-activate")))
      func systemdsToolPassesSockets() throws {
        let mux = try FakeMux()
        mux.attach(phone)
        let port = try freePort()
        let activator = try ChildProcess(
          executable: "/usr/bin/systemd-socket-activate",
          arguments: [
            "systemd-socket-activate", "-l", "127.0.0.1:\(port)", "--fdname=forward-8100",
            "-E", "USBMUXD_SOCKET_ADDRESS=\(mux.address)", Tunnel.binary, "8100:7",
          ])
        var client: Client?
        #expect(
          eventually(within: 5) {
            client = try? Client(port: port)
            return client != nil
          })
        #expect(echoes(try #require(client)), "\(activator.log)")
        activator.signal(SIGTERM)
        #expect(activator.waitForExit() == .exited(0))
      }

      @Test func whatIsMeantForAnotherProcessIsLeftAlone() throws {
        let mux = try FakeMux()
        let socket = try Socket.listen(.loopback(0))
        defer { close(socket) }
        let tunnel = try Tunnel.run(
          ["--usbmuxd-socket", "systemd"],
          environment: ["LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "usbmuxd"])
        #expect(tunnel.exitStatus == .exited(1))
        #expect(tunnel.log.contains("systemd has passed no socket"))
        #expect(mux.connects.isEmpty)
      }

      // MARK: journal

      /// Where standard error leads to the journal, lines carry their priority; elsewhere they do not.
      @Test(.disabled(if: FileManager.default.fileExists(atPath: "/run/systemd/journal/socket")))
      func linesForTheJournalHaveAPriority() throws {
        let mux = try FakeMux()
        mux.setPort(20, .refusing())
        let script = "export JOURNAL_STREAM=$(stat -L -c %d:%i /dev/stderr); exec \"$0\" \"$@\""
        let arguments = ["--transport", "usbmuxd", "-v", "--local", "0", "--device-port", "20"]
        let variables = ["USBMUXD_SOCKET_ADDRESS": mux.address]
        let tunnel = try Tunnel(
          wrapper: ["/bin/sh", "-c", script], arguments: arguments, environment: variables)
        try tunnel.waitUntilReady([20])
        mux.attach(phone)
        #expect(tunnel.logs("<5>", phone))
        #expect(try tunnel.client(20).ending() == .reset)
        #expect(tunnel.logs("<4>", "refused"))
        #expect(tunnel.stop() == .exited(0))
        #expect(tunnel.logLines.allSatisfy { $0.hasPrefix("<") }, "\(tunnel.log)")

        // An inherited variable that names another file means nothing.
        let plain = try Tunnel(mux, [20], ["-v"], environment: ["JOURNAL_STREAM": "1:1"])
        #expect(plain.logs(phone))
        #expect(plain.logLines.allSatisfy { !$0.hasPrefix("<") })
      }
    }
  }
#endif
