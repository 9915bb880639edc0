// usb-emulator [--control SOCKET] [--attach "NAME key=value ..."]... [--rings LIBRARY] -- PROGRAM [ARGUMENT ...]
//
// Runs a program in front of emulated USB devices, which are plugged in and out through the control socket. The
// program has the emulator's standard output and error; its end is the emulator's.

import CUMockdev
import Foundation

func fail(_ text: String, status: Int32 = 3) -> Never {
  FileHandle.standardError.write(Data("usb-emulator: \(text)\n".utf8))
  exit(status)
}

let preload = "libumockdev-preload.so.0"

// The emulating process needs the preload as well.
if !(ProcessInfo.processInfo.environment["LD_PRELOAD"] ?? "").contains(preload) {
  setenv("LD_PRELOAD", preload, 1)
  var arguments: [UnsafeMutablePointer<CChar>?] = CommandLine.arguments.map { strdup($0) } + [nil]
  execv("/proc/self/exe", &arguments)
  fail("cannot start again: \(String(cString: strerror(errno)))")
}

var arguments = Array(CommandLine.arguments.dropFirst())
var control: String?
var attachments: [String] = []
var rings: String?
while let option = arguments.first, option != "--" {
  arguments.removeFirst()
  guard let value = arguments.first else { fail("\(option) has no value", status: 2) }
  arguments.removeFirst()
  switch option {
  case "--control": control = value
  case "--attach": attachments.append(value)
  case "--rings": rings = value
  default: fail("unknown option \(option)", status: 2)
  }
}
let program = Array(arguments.dropFirst())
guard !program.isEmpty else { fail("no program", status: 2) }

var problem: UnsafePointer<CChar>?
guard cu_start(&problem) == 0 else {
  fail("umockdev cannot be used (\(problem.map { String(cString: $0) } ?? "?")): apt-get install umockdev")
}
if rings != nil {
  EmulatedDevice.usesSharedMemory = true
  cu_rings_begin()
}
let bed = Bed()
for line in attachments {
  let answer = bed.perform("attach " + line)
  guard answer.hasPrefix("ok") else { fail(answer) }
}

if let control {
  let listener = cu_listen(control)
  guard listener >= 0 else { fail("cannot listen at \(control): \(String(cString: strerror(errno)))") }
  Thread.detachNewThread {
    while true {
      let client = accept(listener, nil, nil)
      guard client >= 0 else { continue }
      let handle = FileHandle(fileDescriptor: client, closeOnDealloc: true)
      guard let data = try? handle.readToEnd() else { continue }
      let line = String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
      try? handle.write(contentsOf: Data((bed.perform(line) + "\n").utf8))
    }
  }
}

// It stands before umockdev's, which answers all else.
if let rings { setenv("LD_PRELOAD", "\(rings):\(preload)", 1) }
var spawned: [UnsafeMutablePointer<CChar>?] = program.map { strdup($0) } + [nil]
let child = cu_spawn(&spawned)
guard child > 0 else { fail("cannot start \(program[0]): \(String(cString: strerror(errno)))") }
EmulatedDevice.client = child

// Its end is ours, and ours is its.
let childProcess = pid_t(child)
for number in [SIGTERM, SIGINT, SIGHUP] {
  signal(number) { number in kill(childProcess, number) }
}
var status: Int32 = 0
while waitpid(childProcess, &status, 0) < 0 && errno == EINTR {}
bed.removeSharedMemory()
let root = String(cString: cu_root())
try? FileManager.default.removeItem(atPath: root)
if let control { unlink(control) }
let exitCode = status & 0x7f == 0 ? (status >> 8) & 0xff : 128 + (status & 0x7f)
_exit(exitCode)
