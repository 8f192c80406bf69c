"""The endpoints: typed functions over the emulator of the test kit, without any HTTP."""
