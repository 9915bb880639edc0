# bash completion for tunneld

_tunneld() {
  local cur prev words cword
  cur=${COMP_WORDS[COMP_CWORD]}
  prev=${COMP_WORDS[COMP_CWORD - 1]}
  # `=` splits words: --option=value arrives as three of them.
  if [ "$cur" = = ]; then
    cur=
  elif [ "$prev" = = ] && [ "$COMP_CWORD" -ge 2 ]; then
    prev=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  COMPREPLY=()

  case $prev in
    --transport) mapfile -t COMPREPLY < <(compgen -W "auto usbmuxd usb simulated" -- "$cur") ;;
    --log-level) mapfile -t COMPREPLY < <(compgen -W "error warning notice info debug" -- "$cur") ;;
    --log-format) mapfile -t COMPREPLY < <(compgen -W "text json" -- "$cur") ;;
    --bind) mapfile -t COMPREPLY < <(compgen -W "localhost 127.0.0.1 ::1 0.0.0.0 ::" -- "$cur") ;;
    -c | --config | --control-socket | --usbmuxd-socket | --usbmuxd | --capture)
      mapfile -t COMPREPLY < <(compgen -f -- "$cur")
      ;;
    --lockdown-dir) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    --usbmuxd-socket-group | --control-socket-group) mapfile -t COMPREPLY < <(compgen -g -- "$cur") ;;
    -u | --udid | --serial)
      mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" devices --json -q 2>/dev/null \
        | sed -n 's/.*"udid" *: *"\([0-9A-Za-z-]*\)".*/\1/p')" -- "$cur")
      ;;
    --local | --device-port | --wait | --connect-timeout | --half-close-timeout | --drain | --max-connections | \
      --simulate | --simulated-devices | --usbmuxd-socket-mode | --control-socket-mode | --ready-fd) ;;
    *)
      local command="" word
      for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $word in
          devices | status | reload | check-config | forward)
            [ -n "$command" ] || command=$word
            ;;
          add | remove | list)
            if [ "$command" = forward ]; then command="forward $word"; fi
            ;;
        esac
      done
      case $command in
        devices)
          mapfile -t COMPREPLY < <(compgen -W "--json --watch --usb-only --network --network-only --transport
            --usbmuxd --simulated-devices --verbose --quiet --help --version" -- "$cur")
          ;;
        status)
          mapfile -t COMPREPLY < <(compgen -W "--json --prometheus --watch --control-socket --help" -- "$cur")
          ;;
        reload) mapfile -t COMPREPLY < <(compgen -W "--control-socket --help" -- "$cur") ;;
        check-config) mapfile -t COMPREPLY < <(compgen -W "--config --help" -- "$cur") ;;
        forward) mapfile -t COMPREPLY < <(compgen -W "add remove list --control-socket --help" -- "$cur") ;;
        "forward add")
          mapfile -t COMPREPLY < <(compgen -W "--local --device-port --bind --udid --any --usb-only --network
            --network-only --wait --connect-timeout --half-close-timeout --max-connections --lease --json
            --control-socket --help" -- "$cur")
          ;;
        "forward remove") mapfile -t COMPREPLY < <(compgen -W "--udid --control-socket --help" -- "$cur") ;;
        "forward list") mapfile -t COMPREPLY < <(compgen -W "--json --control-socket --help" -- "$cur") ;;
        *)
          mapfile -t COMPREPLY < <(compgen -W "devices status reload check-config forward
            --config --control-socket --control-socket-mode --control-socket-group
            --local --device-port --bind --udid --serial --any --usb-only --network --network-only --transport
            --usbmuxd --simulate --simulated-devices --usbmuxd-socket --usbmuxd-socket-mode --usbmuxd-socket-group
            --lockdown-dir --wait --connect-timeout --half-close-timeout --drain --max-connections --ready-fd
            --ready-json --exit-with-parent --verbose --quiet --log-level --log-format --redact-udids --help
            --version --capture" -- "$cur")
          ;;
      esac
      ;;
  esac
}
complete -F _tunneld tunneld
