// UDID, DeviceID, DevicePort, DaemonAddress and NetworkAddress are part of this library's interface: who
// imports it needs no second import for them.
@_exported public import MuxProtocol
