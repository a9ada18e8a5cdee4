#include "deckle/core/factory_device.h"

namespace deckle {
namespace {

thread_local Device device_of_factories;

}  // namespace

Device factory_device() { return device_of_factories; }
OnDevice::OnDevice(Device device) : former_(device_of_factories) { device_of_factories = device; }
OnDevice::~OnDevice() { device_of_factories = former_; }

}  // namespace deckle
