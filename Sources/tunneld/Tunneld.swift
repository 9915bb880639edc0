/// The daemon and command line.
@main
enum Tunneld {
  static func main() {}
}
