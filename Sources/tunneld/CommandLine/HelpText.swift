/// What `--help` prints, without the last line break.
enum HelpText {
  static let tunneld = """
    Usage: tunneld [OPTIONS] LOCAL:DEVICE [LOCAL:DEVICE ...]
           tunneld [OPTIONS] --local [ADDRESS:]PORT --device-port PORT [...]
           tunneld [OPTIONS] --usbmuxd-socket PATH
           tunneld [OPTIONS] [-c FILE]
           tunneld devices | status | reload | check-config | forward add|remove|list [--help]

    Forwards local ports to ports on an iPhone or iPad, over USB.

    Service:
      -c, --config FILE            forwards and settings from this file, which SIGHUP and
                                   `tunneld reload` read again (default, where nothing else is to
                                   be done: /etc/tunneld/tunneld.conf)
          --control-socket PATH    where `tunneld status` and others ask (default with a
                                   configuration: /run/tunneld/control.sock; none: nowhere)
          --control-socket-mode MODE, --control-socket-group GROUP
                                   who may ask (default 660, the group of this process)

    Forwards:
          --local [ADDRESS:]PORT   listen here; also [V6]:PORT, localhost:PORT, unix:/path;
                                   port 0 picks a free one
          --device-port PORT       port on the phone's loopback; one for each --local, in order
          --bind ADDRESS           address for local ports that have none (default: localhost,
                                   127.0.0.1 and ::1)

    Phone:
      -u, --udid UDID              this phone; with or without dash, in any case, or its beginning
                                   (--serial is the same)
          --any                    the first phone found, where several are attached
          --usb-only               only over the cable (default)
          --network                over the cable, else over Wi-Fi
          --network-only           only over Wi-Fi

    Transport:
          --transport NAME         auto (default), usbmuxd, usb or simulated
          --usbmuxd ADDRESS        UNIX:/path, host:port or [v6]:port (default:
                                   $USBMUXD_SOCKET_ADDRESS, or /var/run/usbmuxd)
          --simulate PORT=SERVICE  what answers on a simulated phone: echo, discard, chargen,
                                   http, or 127.0.0.1:PORT on this machine; repeatable
          --simulated-devices N    how many simulated phones there are (default 1)

    Other programs, served as usbmuxd would:
          --usbmuxd-socket PATH|HOST:PORT|systemd
                                   listen here, on a Unix socket or a loopback address, or on the
                                   socket that systemd passes; programs find it by
                                   $USBMUXD_SOCKET_ADDRESS, or at /var/run/usbmuxd
          --usbmuxd-socket-mode MODE
                                   who may connect, in octal (default 660; usbmuxd has 666)
          --usbmuxd-socket-group GROUP
                                   the socket's group (default: that of this process)
          --lockdown-dir DIRECTORY
                                   where pair records are kept (default: lockdown in the service's
                                   state directory, else /var/lib/lockdown; on macOS
                                   /var/db/lockdown)

    Limits, times in seconds:
          --wait SECONDS           how long a connection waits for a phone (default 5)
          --connect-timeout SECONDS
                                   how long the phone may take to accept (default 10)
          --half-close-timeout SECONDS
                                   how long a phone may be silent after the client ended its
                                   sending side (default 30)
          --drain SECONDS          how long connections go on after SIGTERM or SIGINT (default 0.3)
          --max-connections N      the most connections at one time (default: as many as the
                                   descriptor limit allows)

    For programs that start it:
          --ready-fd N             write the ready lines to descriptor N, and close it; what can
                                   listen later only is in the log and in `tunneld status`
          --ready-json             one line of JSON instead: addresses, ports, UDID, pid
          --exit-with-parent       end when the process that started it does

    Log:
      -v, --verbose                log more; repeat for still more
      -q, --quiet                  log errors only
          --log-level LEVEL        error, warning (default), notice, info or debug
          --log-format FORMAT      text (default) or json, one object a line
          --redact-udids           write UDIDs without their distinctive part

    Capture:
          --capture FILE           write all streams to this pcapng file (mode 0600) or FIFO, as TCP,
                                   for Wireshark and tshark; it holds whatever passes

    Other:
      -h, --help                   print this and end
          --version                print the version and end

    Exit status: 0 after SIGTERM or SIGINT, 1 after a failure, 2 for a wrong command line.
    """

  static let devices = """
    Usage: tunneld devices [--json] [--watch] [OPTIONS]

    Shows the phones that can be reached.

          --json                   one JSON object a line
          --watch                  go on, and show phones as they come and go
          --usb-only, --network-only
                                   only phones on a cable, only phones on Wi-Fi (default: --network, both)
          --transport NAME         auto (default), usbmuxd, usb or simulated
          --usbmuxd ADDRESS        UNIX:/path, host:port or [v6]:port (default:
                                   $USBMUXD_SOCKET_ADDRESS, or /var/run/usbmuxd)
          --simulated-devices N    how many simulated phones there are (default 1)
      -v, --verbose                log more; repeat for still more
      -q, --quiet                  log errors only
      -h, --help                   print this and end
          --version                print the version and end
    """

  static let status = """
    Usage: tunneld status [--json|--prometheus|--watch] [--control-socket PATH]

    Shows what a running tunneld does: phones, forwards, connections, counters.

          --json                   one JSON object
          --prometheus             in the text format of Prometheus
          --watch                  draw the table again every second, with rates, until q or Ctrl-C
          --control-socket PATH    where it is asked (default /run/tunneld/control.sock)
      -h, --help                   print this and end

    Exit status: 0, 1 when no tunneld answers, 2 for a wrong command line.
    """

  static let reload = """
    Usage: tunneld reload [--control-socket PATH]

    Makes a running tunneld read its configuration file again. Connections of forwards that stay go on. A
    file with mistakes changes nothing: they are shown, and the exit status is 1.

          --control-socket PATH    where it is asked (default /run/tunneld/control.sock)
      -h, --help                   print this and end
    """

  static let checkConfiguration = """
    Usage: tunneld check-config [-c FILE]

    Says what is wrong with a configuration file, each mistake with its line.

      -c, --config FILE            the file (default /etc/tunneld/tunneld.conf)
      -h, --help                   print this and end

    Exit status: 0 when nothing is, else 2.
    """

  static let forward = """
    Usage: tunneld forward add [OPTIONS] LOCAL:DEVICE [...]
           tunneld forward remove NUMBER|NAME|LOCAL [...]
           tunneld forward remove --udid UDID
           tunneld forward list [--json]

    Adds forwards to a running tunneld, removes them with their connections, or lists them.

          --local, --device-port, --bind, --udid, --any, --usb-only, --network, --network-only, --wait,
          --connect-timeout, --half-close-timeout, --max-connections
                                   as for tunneld itself, see tunneld --help
          --lease                  stay, and take the forwards back when this command ends
          --json                   one JSON object a line
          --control-socket PATH    where it is asked (default /run/tunneld/control.sock)
      -h, --help                   print this and end

    Exit status: 0, 1 when it cannot be done, 2 for a wrong command line.
    """

  static let iproxy = """
    Usage: iproxy [OPTIONS] LOCAL_PORT:DEVICE_PORT [LOCAL_PORT2:DEVICE_PORT2 ...]
           iproxy [OPTIONS] LOCAL_PORT DEVICE_PORT [UDID]

    Forwards local TCP ports to ports on an iPhone or iPad. This is tunneld under the name of iproxy.

      -u, --udid UDID      this phone (default: the first one found)
      -n, --network        over Wi-Fi
      -l, --local          over USB (default)
      -s, --source ADDR    address to listen on (default: 127.0.0.1 and ::1)
      -d, --debug          log more; repeat for still more
      -h, --help           print this and end
      -v, --version        print the version and end
    """
}
