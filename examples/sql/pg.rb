require 'pg'

$stdout.sync = true
holder, attempt = ARGV
connection = PG.connect
pass = nil

transfer = lambda do |pause|
  connection.transaction do |c|
    c.exec("set transaction isolation level #{ENV['LEVEL']}")
    c.exec_params('select ringfence.enter($1)', [pass]) # fence
    if pause
      puts 'inside'
      $stdin.gets
    end
    c.exec_params('insert into ledger values ($1)', [holder])
  end
end

until pass # fence
  term = connection.exec_params("select pass, ready from ringfence.take('orders', $1, $2)", [holder, attempt]).first # fence
  pass = term['pass'] if term['ready'] == 't' # fence
  sleep 0.01 # fence
end
transfer.call(false)
puts 'wrote'
[true, false].each do |pause|
  transfer.call(pause)
  puts 'STALE'
rescue PG::Error => e
  puts e.result&.error_field(PG::PG_DIAG_SQLSTATE) == 'RF001' ? 'refused' : 'ended'
  connection = PG.connect
end
