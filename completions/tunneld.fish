# fish completion for tunneld

set -l commands devices status reload check-config forward

function __tunneld_udids
    tunneld devices --json -q 2>/dev/null | string replace -rf '.*"udid" *: *"([0-9A-Za-z-]+)".*' '$1'
end

function __tunneld_run
    not __fish_seen_subcommand_from devices status reload check-config forward
end

function __tunneld_forward -d 'Whether forward is to do one of these'
    __fish_seen_subcommand_from forward; and __fish_seen_subcommand_from $argv
end

complete -c tunneld -f
complete -c tunneld -n __tunneld_run -a "$commands"
complete -c tunneld -n '__fish_seen_subcommand_from forward; and not __tunneld_forward add remove list' \
    -a 'add remove list'

complete -c tunneld -s h -l help -d 'Print a short help'
complete -c tunneld -l version -d 'Print the version'

# Forwards: of the daemon, and of `forward add`.
set -l forwards '__tunneld_run; or __tunneld_forward add'
set -l phones '__tunneld_run; or __tunneld_forward add remove'
complete -c tunneld -n $forwards -l local -x -d 'Listen here'
complete -c tunneld -n $forwards -l device-port -x -d 'Port on the phone'
complete -c tunneld -n $forwards -l bind -x -a 'localhost 127.0.0.1 ::1 0.0.0.0 ::' -d 'Address for local ports'
complete -c tunneld -n $phones -s u -l udid -x -a '(__tunneld_udids)' -d 'This phone'
complete -c tunneld -n $phones -l serial -x -a '(__tunneld_udids)' -d 'This phone'
complete -c tunneld -n $forwards -l any -d 'The first phone found'
complete -c tunneld -n $forwards -l wait -x -d 'Seconds a connection waits for a phone'
complete -c tunneld -n $forwards -l connect-timeout -x -d 'Seconds the phone may take to accept'
complete -c tunneld -n $forwards -l half-close-timeout -x -d 'Seconds of silence after a half-close'
complete -c tunneld -n $forwards -l max-connections -x -d 'The most connections at one time'

set -l ways '__tunneld_run; or __fish_seen_subcommand_from devices; or __tunneld_forward add'
complete -c tunneld -n $ways -l usb-only -d 'Only over the cable'
complete -c tunneld -n $ways -l network -d 'Over the cable, else over Wi-Fi'
complete -c tunneld -n $ways -l network-only -d 'Only over Wi-Fi'

set -l transport 'not __fish_seen_subcommand_from status reload check-config forward'
complete -c tunneld -n $transport -l transport -x -a 'auto usbmuxd usb simulated' -d 'What carries the connections'
complete -c tunneld -n $transport -l usbmuxd -r -d 'Where usbmuxd is'
complete -c tunneld -n $transport -l simulated-devices -x -d 'How many simulated phones there are'
complete -c tunneld -n $transport -s v -l verbose -d 'Log more'
complete -c tunneld -n $transport -s q -l quiet -d 'Log errors only'

set -l asks 'not __fish_seen_subcommand_from devices check-config'
complete -c tunneld -n $asks -l control-socket -r -F -d 'Control socket of the daemon'

complete -c tunneld -n 'not __fish_seen_subcommand_from devices status reload forward' -s c -l config -r -F \
    -d 'Configuration file'

complete -c tunneld -n __tunneld_run -l control-socket-mode -x -d 'Who may ask'
complete -c tunneld -n __tunneld_run -l control-socket-group -x -a '(__fish_complete_groups)' -d 'Group of the socket'
complete -c tunneld -n __tunneld_run -l simulate -x -d 'What answers on a simulated phone'
complete -c tunneld -n __tunneld_run -l usbmuxd-socket -r -F -d 'Serve other programs here'
complete -c tunneld -n __tunneld_run -l usbmuxd-socket-mode -x -a '660 666' -d 'Who may connect'
complete -c tunneld -n __tunneld_run -l usbmuxd-socket-group -x -a '(__fish_complete_groups)' -d 'Group of the socket'
complete -c tunneld -n __tunneld_run -l lockdown-dir -r -a '(__fish_complete_directories)' -d 'Where pair records are kept'
complete -c tunneld -n __tunneld_run -l drain -x -d 'Seconds connections go on after SIGTERM'
complete -c tunneld -n __tunneld_run -l ready-fd -x -d 'Write the ready lines to this descriptor'
complete -c tunneld -n __tunneld_run -l ready-json -d 'One line of JSON when ready'
complete -c tunneld -n __tunneld_run -l exit-with-parent -d 'End when the parent does'
complete -c tunneld -n __tunneld_run -l log-level -x -a 'error warning notice info debug' -d 'The least important lines'
complete -c tunneld -n __tunneld_run -l log-format -x -a 'text json' -d 'How lines are written'
complete -c tunneld -n __tunneld_run -l capture -r -F -d 'Write all streams to this pcapng file'
complete -c tunneld -n __tunneld_run -l redact-udids -d 'Write UDIDs without their distinctive part'

complete -c tunneld -n '__fish_seen_subcommand_from devices status; or __tunneld_forward add list' -l json -d 'JSON'
complete -c tunneld -n '__fish_seen_subcommand_from devices status' -l watch -d 'Go on'
complete -c tunneld -n '__fish_seen_subcommand_from status' -l prometheus -d 'Text format of Prometheus'
complete -c tunneld -n '__tunneld_forward add' -l lease -d 'Take the forwards back at the end'
